#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"

// The small files of a store: its marker, its layout, its notes.

namespace compilecache::store {

inline constexpr uint64_t kMaxSmallFile = 64U << 10;

// Replaces directory/name atomically and durably; writes nothing if it has this content already.
Status write_if_different(const std::string& directory, const std::string& name,
                          const std::string& content);

}  // namespace compilecache::store
