#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "archive/blob_store.hpp"
#include "archive/format.hpp"
#include "base/error.hpp"

// The documents of an archive: the manifest lists its blobs, the config its files.
//
//   auto manifest = read_manifest(store, digest);
//   if (!manifest) return unexpected(manifest.error());   // kNotFound: gone; kCorrupt: damaged
//   auto config = read_config(store, *manifest);
//   if (const FileEntry* file = config->find("torch/ab/cabc.py")) ...
//
// Values; safe to share between threads once made.

namespace compilecache::archive {

using Annotations = std::map<std::string, std::string>;

struct Manifest {
  std::string digest;  // of the manifest itself
  uint64_t size = 0;   // likewise
  Descriptor config;
  std::vector<Descriptor> layers;
  Annotations annotations;

  // From now on all blobs are read from the store.
  void forget_data();
};

// The value of kAnnotationCompileSeconds; 0: unknown, or implausible.
double compile_seconds(const Annotations& annotations);

struct FileEntry {
  std::string path;  // in the archive: "torch/ab/cabc.py"; the first component is called its root
  uint64_t size = 0;
  bool executable = false;
  ContentHash sha256{};
  uint32_t layer = 0;  // the layer that holds the content
  // The path under which that layer holds the content, if it is another one: equal files are stored
  // once.
  std::string from;
  // When the file was last written, in nanoseconds since 1970; archives of release 0.1 do not have
  // it. Each of several equal files has its own.
  std::optional<int64_t> modified_ns;

  [[nodiscard]] const std::string& stored_as() const { return from.empty() ? path : from; }
};

struct LayerStats {
  uint64_t plain_bytes = 0;    // of the tar stream
  uint64_t content_bytes = 0;  // of the files in it, including superseded ones
};

inline constexpr size_t kMostNotes = 64, kLongestNote = 64U << 10;

struct Config {
  std::vector<FileEntry> files;    // sorted by path, paths unique
  std::vector<LayerStats> layers;  // as many as the manifest's
  // Notes of the archive's writers, by name; nothing here depends on them. At most kMostNotes, of
  // kLongestNote bytes each.
  std::map<std::string, std::string> notes;

  // Returns null if the archive does not have the file.
  [[nodiscard]] const FileEntry* find(std::string_view path) const;
  // The sum of the files' sizes; each of several equal files counts.
  [[nodiscard]] uint64_t plain_bytes() const;
};

// The size and the blobs of an archive, which a commit reports.
struct ArchiveInfo {
  std::string manifest;  // digest
  uint64_t manifest_bytes = 0;
  std::string config;               // digest
  std::vector<std::string> layers;  // digests, oldest first
  uint64_t compressed_bytes = 0;    // of all blobs, manifest and config included
  uint64_t plain_bytes = 0;         // see Config::plain_bytes
  uint64_t files = 0;

  // Every blob that the archive needs: manifest, config, layers.
  [[nodiscard]] std::vector<std::string> blobs() const;
};

ArchiveInfo describe(const Manifest& manifest, const Config& config);

// Reads and checks the manifest blob. kNotFound: no such blob. kCorrupt: its bytes do not match the
// digest. kInvalid: `digest` is not a digest, the blob is not an archive, or has a version
// that this program does not know (the message says which).
Result<Manifest> read_manifest(const BlobStore& store, const std::string& digest,
                               const Limits& limits = {});

// Reads and checks the config: what the manifest has of it, else its blob. Errors as above.
Result<Config> read_config(const BlobStore& store, const Manifest& manifest,
                           const Limits& limits = {});

}  // namespace compilecache::archive
