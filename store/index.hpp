#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/manifest.hpp"
#include "base/error.hpp"

// The index of a store, OCI's index.json: a copy of the truth (which is in the API server) for OCI
// tools and for loads without the operator. Pure.
//
//   IndexEntry entry{saved.archive.manifest, saved.archive.manifest_bytes,
//                    {{archive::kAnnotationName, "llama-3f2a91"},
//                     {archive::kAnnotationGeneration, "7"},
//                     {"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}}};
//   Index index = parse_index(text, "/mnt/caches/llama/index.json");
//   if (put_entry(index.entries, entry)) text = index_text(index.entries);

namespace compilecache::store {

// A larger index is read as a damaged one.
inline constexpr uint64_t kMaxIndexBytes = 8ULL << 20;

struct IndexEntry {
  std::string digest;  // of the manifest
  uint64_t size = 0;   // of the manifest
  archive::Annotations annotations;

  [[nodiscard]] std::string name() const;     // kAnnotationName, or empty
  [[nodiscard]] uint64_t generation() const;  // kAnnotationGeneration, or 0
};

struct Index {
  // One for each name, the highest generation, sorted by name; entries without a name all stay.
  std::vector<IndexEntry> entries;
  // What could not be used, for a log line: few, however many entries are bad.
  std::vector<std::string> problems;
};

// `source` is for the problems' messages.
Index parse_index(const std::string& text, const std::string& source);
std::string index_text(const std::vector<IndexEntry>& entries);

// kInvalid: it has no name. `store` is for the message.
Status check_entry(const IndexEntry& entry, const std::string& store);
// Adds the entry, in place of one with the same name and no higher generation, or a higher one that
// was saved earlier: of an archive that was deleted since, whose generations began anew. False: a
// later save was faster, and nothing changes.
bool put_entry(std::vector<IndexEntry>& entries, const IndexEntry& entry);

}  // namespace compilecache::store
