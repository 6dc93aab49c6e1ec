#pragma once

#include <string_view>

#include "base/hex.hpp"

namespace compilecache::controller {

// Whether an agent's text is a digest, "sha256:" and 64 hexadecimal digits. Nothing else is kept of
// what agents call digests. Pure.
inline bool is_digest(std::string_view text) {
  return text.starts_with("sha256:") && is_hex(text.substr(7), 64);
}

}  // namespace compilecache::controller
