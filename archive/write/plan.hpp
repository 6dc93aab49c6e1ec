#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source.hpp"
#include "base/error.hpp"

// What a save has to write, as pure functions of what the parent holds and what the sources are.

namespace compilecache::archive {

// A file that is not larger is hashed before it is packed, and so found to be equal to one that was
// packed before.
inline constexpr uint64_t kWholeBytes = 4ULL << 20;

// Indices of the sources whose content must be hashed to find out whether the parent has it, and
// groups of larger sources that may be equal to each other, having the same size.
struct Candidates {
  std::vector<size_t> hash;
  std::vector<std::vector<size_t>> same_size;
};
Candidates find_candidates(const Config& parent, const std::vector<Source>& sources);

struct Plan {
  // The union, sorted. Content that has to be packed is said to be in layer `new_layer`.
  std::vector<FileEntry> files;
  uint32_t new_layer = 0;
  // Sources to pack, each a content that nothing else has, the entry of `files` that it becomes,
  // and the entries with the same content.
  struct Pack {
    size_t source = 0;
    size_t file = 0;
    std::vector<size_t> links;
  };
  std::vector<Pack> packs;
  uint64_t added_files = 0;
  uint64_t added_plain_bytes = 0;
};

// `sources` are sorted by path, paths unique, hashed where find_candidates says so. Where a path is
// a file in one and a directory in the other, the sources win over the parent. Takes the files out
// of `parent`, as both lists would be much memory; its layers and notes stay.
Plan make_plan(Config& parent, const std::vector<Source>& sources);

// Whether one full layer is to be written in place of a delta: at kMaxLayers, or when of the stored
// bytes no more than half would be in use.
bool should_compact(const Config& parent, const Plan& plan);

// What a reader would refuse is not written: kTooLarge.
Status check_limits(const std::vector<FileEntry>& files, const Limits& limits);

}  // namespace compilecache::archive
