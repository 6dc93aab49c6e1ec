#pragma once

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
  std::string finish_hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view text);

}  // namespace compilecache
