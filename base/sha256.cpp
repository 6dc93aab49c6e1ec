// Not EVP: looking an algorithm up there loads OpenSSL's providers, which takes a millisecond and two
// MiB, and is done anew for each object.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.hpp"

#include <openssl/sha.h>

#include <array>

#include "base/hex.hpp"

namespace compilecache {

struct Sha256::Context {
  SHA256_CTX state;
  Context() { SHA256_Init(&state); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const uint8_t> bytes) {
  SHA256_Update(&context_->state, bytes.data(), bytes.size());
}

void Sha256::update(std::string_view text) {
  SHA256_Update(&context_->state, text.data(), text.size());
}

std::string Sha256::finish_hex() {
  std::array<uint8_t, 32> digest{};
  SHA256_Final(digest.data(), &context_->state);
  SHA256_Init(&context_->state);
  return to_hex(digest);
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish_hex();
}

}  // namespace compilecache
