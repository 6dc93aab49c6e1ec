#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/manifest.hpp"
#include "base/error.hpp"

// index.json: a copy of the truth (which is in the API server) for OCI tools and for loads without
// the operator.
//
//   IndexEntry entry{saved.archive.manifest, saved.archive.manifest_bytes,
//                    {{kAnnotationName, "llama-3f2a91"}, {kAnnotationGeneration, "7"},
//                     {"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}}};
//   upsert_index_entry(store, entry);

namespace compilecache::archive {

struct IndexEntry {
  std::string digest;  // of the manifest
  uint64_t size = 0;   // of the manifest
  Annotations annotations;

  [[nodiscard]] std::string name() const;     // kAnnotationName, or empty
  [[nodiscard]] uint64_t generation() const;  // kAnnotationGeneration, or 0
};

struct Index {
  // One for each name, the highest generation, sorted by name; entries without a name all stay.
  std::vector<IndexEntry> entries;
  // What could not be used, for a log line: few, however many entries are bad.
  std::vector<std::string> problems;
};

// Never fails: an index that is missing or damaged is an empty one with a problem.
Index read_index(const std::string& store);

// Replaces index.json at once (temporary file, fsync, rename).
Status write_index(const std::string& store, const std::vector<IndexEntry>& entries);

// Adds the entry, in place of one with the same name and no higher generation, or a higher one that
// was saved earlier: of an archive that was deleted since, whose generations began anew. Two savers
// doing this at once can lose one of the two entries; the next sweep, which knows the truth, writes
// all. kInvalid: the entry has no name.
Status upsert_index_entry(const std::string& store, const IndexEntry& entry);

}  // namespace compilecache::archive
