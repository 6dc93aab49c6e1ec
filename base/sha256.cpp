#include "base/sha256.hpp"

#include "base/hex.hpp"
#include "base/sha256_context.hpp"

namespace compilecache {

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

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  SHA256_Final(digest.data(), &context_->state);
  SHA256_Init(&context_->state);
  return digest;
}

std::string Sha256::finish_hex() { return to_hex(finish()); }

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish_hex();
}

}  // namespace compilecache
