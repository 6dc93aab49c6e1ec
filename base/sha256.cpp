#include "base/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "base/hex.hpp"

namespace compilecache {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() {
    if (evp == nullptr) throw std::bad_alloc();
    EVP_DigestInit_ex(evp, EVP_sha256(), nullptr);
  }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const uint8_t> bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

void Sha256::update(std::string_view text) {
  EVP_DigestUpdate(context_->evp, text.data(), text.size());
}

std::string Sha256::finish_hex() {
  std::array<uint8_t, 32> digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(context_->evp, digest.data(), &length);
  EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr);
  return to_hex(digest);
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish_hex();
}

}  // namespace compilecache
