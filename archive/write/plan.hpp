#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/format.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source.hpp"
#include "base/error.hpp"

// Pure functions that decide from the parent and the sources what a save has to write.

namespace compilecache::archive {

// Files up to this size are hashed before they are packed, so that one that is equal to an earlier
// file is not packed again.
inline constexpr uint64_t kWholeBytes = 4ULL << 20;

// Indices of the sources whose content must be hashed to find out whether the parent has it. Groups
// of larger sources that may be equal to each other, having the same size.
struct Candidates {
  std::vector<size_t> hash;
  std::vector<std::vector<size_t>> same_size;
};
Candidates find_candidates(const Config& parent, const std::vector<Source>& sources);

struct Plan {
  // The union, sorted. Content that has to be packed has `new_layer` as its layer.
  std::vector<FileEntry> files;
  uint32_t new_layer = 0;
  // A source to pack, whose content nothing else has; its entry in `files`; and the other entries
  // with the same content.
  struct Pack {
    size_t source = 0;
    size_t file = 0;
    std::vector<size_t> links;
  };
  std::vector<Pack> packs;
  uint64_t added_files = 0;
  uint64_t added_plain_bytes = 0;
};

// `sources` are sorted by path, paths are unique, and the candidates of find_candidates are hashed.
// If a path is a file in one and a directory in the other, the sources win over the parent. Moves
// the files out of `parent`, as both lists would take much memory; its layers and notes stay.
Plan make_plan(Config& parent, const std::vector<Source>& sources);

// How many of the parent's layers, the oldest ones, stay as they are; the content in use of the
// others goes into the new layer. None stays if no more than half of the stored bytes would be in
// use. At kMaxLayers the last one joins, and with it those before it that are no larger than the
// new layer. So a large layer stays until later ones have become as large, however
// many savers (the ranks of a group) add a little each.
size_t kept_layers(const Config& parent, const Plan& plan);

// kTooLarge: a reader would refuse an archive of these files, so it is not written.
Status check_limits(const std::vector<FileEntry>& files, const Limits& limits);

}  // namespace compilecache::archive
