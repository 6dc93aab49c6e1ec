#include "base/sha256.hpp"

#include <algorithm>
#include <array>

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

std::string hmac_sha256_hex(std::string_view key, std::string_view text) {
  constexpr size_t kBlock = 64;
  std::array<uint8_t, kBlock> inner{};
  Sha256 hash;
  if (key.size() > kBlock) {
    hash.update(key);
    const Sha256Digest shorter = hash.finish();
    std::copy(shorter.begin(), shorter.end(), inner.begin());
  } else {
    std::copy(key.begin(), key.end(), inner.begin());
  }
  std::array<uint8_t, kBlock> outer = inner;
  for (uint8_t& byte : inner) byte ^= 0x36;
  for (uint8_t& byte : outer) byte ^= 0x5c;
  hash.update(inner);
  hash.update(text);
  const Sha256Digest message = hash.finish();
  hash.update(outer);
  hash.update(message);
  return hash.finish_hex();
}

}  // namespace compilecache
