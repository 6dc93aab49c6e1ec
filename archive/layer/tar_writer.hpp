#pragma once

#include <cstdint>
#include <string>

// Makes tar headers that every tar program reads: ustar, with a PAX header before it only if a path
// is too long or a file too big for ustar. Owner 0, group 0, times 0: equal content makes equal
// bytes, but for a variation, which is in the times.

namespace compilecache::archive {

inline constexpr size_t kTarBlock = 512;

enum class TarType { kFile, kDirectory, kHardLink };

struct TarEntry {
  std::string path;  // without a trailing slash, for directories too
  TarType type = TarType::kFile;
  uint64_t size = 0;  // files only
  bool executable = false;
  std::string link_target;  // hard links only
  unsigned variation = 0;   // see WriteSettings
};

// The header block (or three to five blocks with PAX) of the entry.
std::string tar_header(const TarEntry& entry);

// How many zero bytes follow `size` bytes of content.
inline size_t tar_padding(uint64_t size) { return (kTarBlock - size % kTarBlock) % kTarBlock; }

// The zero bytes that end the stream.
inline constexpr size_t kTarEndBytes = 2 * kTarBlock;

}  // namespace compilecache::archive
