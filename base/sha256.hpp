#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

// SHA-256 by OpenSSL.
//
//   Sha256 hash;
//   hash.update(chunk);
//   std::string digest = hash.finish_hex();   // 64 digits; "sha256:" is added by whoever needs it

namespace compilecache {

using Sha256Digest = std::array<uint8_t, 32>;

// Not thread-safe; one object hashes one stream.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const uint8_t> bytes);
  void update(std::string_view text);
  // Ends the stream and starts a new, empty one.
  Sha256Digest finish();
  std::string finish_hex();

  struct Context;  // sha256_context.hpp, for sha256_pair.cpp

 private:
  friend void update_pair(Sha256& first, std::span<const uint8_t> first_bytes, Sha256& second,
                          std::span<const uint8_t> second_bytes);

  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view text);

// HMAC (RFC 2104): a digest that reveals nothing of the text without the key.
std::string hmac_sha256_hex(std::string_view key, std::string_view text);

}  // namespace compilecache
