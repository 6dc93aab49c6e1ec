#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/sha256.hpp"
#include "http/session.hpp"

namespace compilecache::store {

inline std::string digest_of(std::string_view text) { return "sha256:" + sha256_hex(text); }

// A small blob from memory, which must outlive it.
class TextSource : public http::BodySource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  [[nodiscard]] uint64_t size() const override { return text_.size(); }
  Status read_at(std::span<uint8_t> bytes, uint64_t offset) override {
    text_.copy(reinterpret_cast<char*>(bytes.data()), bytes.size(), offset);
    return {};
  }

 private:
  const std::string_view text_;
};

}  // namespace compilecache::store
