#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace compilecache::frameworks {

// Fills `out` with the bytes from `offset` on; false when they are not there.
using ReadAt = std::function<bool(uint64_t offset, std::span<uint8_t> out)>;

// Whether a file of `size` bytes is an ELF file whose headers, segments and section table lie
// within it. g++ writes a shared library in place and a torn one crashes every process that loads
// it (tried with torch 2.6). GNU ld writes the headers last, so a file that is still being written
// has none or is too short. 32 and 64 bit, either byte order. Reads the headers and the two tables,
// never the contents.
bool elf_whole(const ReadAt& read, uint64_t size);

}  // namespace compilecache::frameworks
