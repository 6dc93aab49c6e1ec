#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "archive/manifest.hpp"
#include "base/error.hpp"

// The index of a store in the form of OCI's index.json: a copy of the truth (which is in the API
// server) for OCI tools and for loads without the operator. Pure.
//
//   IndexEntry entry{saved.archive.manifest, saved.archive.manifest_bytes,
//                    {{archive::kAnnotationName, "llama-3f2a91"},
//                     {archive::kAnnotationGeneration, "7"},
//                     {"dev.compilecache.key.GPUProduct", "NVIDIA-H100-80GB-HBM3"}}};
//   Index index = parse_index(text, "/mnt/caches/llama/index.json");
//   if (put_entry(index.entries, entry)) text = index_text(index.entries);

namespace compilecache::store {

// A larger index counts as damaged.
inline constexpr uint64_t kMaxIndexBytes = 8ULL << 20;

struct IndexEntry {
  std::string digest;  // of the manifest
  uint64_t size = 0;   // of the manifest
  archive::Annotations annotations;

  [[nodiscard]] std::string name() const;     // kAnnotationName, or empty
  [[nodiscard]] uint64_t generation() const;  // kAnnotationGeneration, or 0
};

struct Index {
  // Sorted by name. Only the entry with the highest generation of a name is kept;
  // entries without a name are all kept.
  std::vector<IndexEntry> entries;
  // Why entries could not be used, for a log line. At most a few, however many entries are bad.
  std::vector<std::string> problems;
};

// `source` names the index in the problems' messages.
Index parse_index(const std::string& text, const std::string& source);
std::string index_text(const std::vector<IndexEntry>& entries);

// By name, and of each name the highest generation first.
void sort_entries(std::vector<IndexEntry>& entries);
// Sorts entries and drops those that Index::entries has not.
void keep_newest(std::vector<IndexEntry>& entries);
// The entries of each name, of sorted entries, which have to outlive the result; an entry without a
// name is by itself.
std::vector<std::span<const IndexEntry>> by_name(const std::vector<IndexEntry>& entries);

// kInvalid: the entry has no name. `store` names the store in the message.
Status check_entry(const IndexEntry& entry, const std::string& store);
// Adds the entry. It replaces one with the same name if that has no higher generation, or was saved
// earlier: then the archive was deleted in between, and its generations began again. False: nothing
// is changed, as the entry that is there is newer.
bool put_entry(std::vector<IndexEntry>& entries, const IndexEntry& entry);
// Puts it in place of the entry with the same name, if that has the manifest `expected` ("": there
// is none). kConflict: it has another one; nothing is changed.
Status extend_entry(std::vector<IndexEntry>& entries, const std::string& expected,
                    const IndexEntry& entry);

}  // namespace compilecache::store
