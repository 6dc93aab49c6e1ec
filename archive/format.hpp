#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

// The names and limits of the archive format; docs/archive-format.md explains them.

namespace compilecache::archive {

inline constexpr int kFormatVersion = 1;

// The manifest's artifactType: whoever finds one of our manifests in a registry knows what it is.
inline constexpr const char* kArtifactType = "application/vnd.compilecache.archive.v1";
// The config: zstd-compressed JSON that lists every file.
inline constexpr const char* kConfigMediaType =
    "application/vnd.compilecache.archive.config.v1+json+zstd";
// A layer is exactly what the OCI image specification calls a zstd-compressed tar, so it is named
// so and tools that know layers can unpack it.
inline constexpr const char* kLayerMediaType = "application/vnd.oci.image.layer.v1.tar+zstd";
inline constexpr const char* kManifestMediaType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kIndexMediaType = "application/vnd.oci.image.index.v1+json";

// Annotations. The first is OCI's own: the name by which `skopeo inspect oci:DIR:NAME` finds an
// entry of index.json, and by which we do: the archive's name.
inline constexpr const char* kAnnotationName = "org.opencontainers.image.ref.name";
// Decimal number that grows with every commit of an archive; of two entries with one name the
// higher one counts.
inline constexpr const char* kAnnotationGeneration = "dev.compilecache.generation";
// RFC 3339.
inline constexpr const char* kAnnotationSavedAt = "dev.compilecache.saved-at";
// How long the pods that made the archive compiled, in seconds, "41.237": half of it is what a load
// may cost. Of the manifest too, so that an index can be written anew.
inline constexpr const char* kAnnotationCompileSeconds = "dev.compilecache.compile-seconds";
// Followed by the name of a part of the key: "dev.compilecache.key.GPUProduct".
inline constexpr const char* kAnnotationKeyPrefix = "dev.compilecache.key.";

// A save that would make more layers than this writes one full layer instead: each layer costs a
// load one more file to open, and its superseded files one more download.
inline constexpr size_t kMaxLayers = 4;

// What a reader accepts, whatever an archive says of itself. A writer refuses to make what a reader
// would not take.
struct Limits {
  uint64_t max_entries = 80'000;
  // That files imply: two for each file. What a few bytes of a path imply costs a system call.
  uint64_t max_directories = 160'000;
  // Of all paths together, as they are kept while an archive is read.
  uint64_t max_path_bytes = 64ULL << 20;
  uint64_t max_plain_bytes = 64ULL << 30;
  // Of plain to compressed bytes of a layer, from kRatioCountsFrom on. Real caches of near-equal
  // files reach 220 (vLLM's subgraphs).
  uint64_t max_ratio = 2'000;
  uint64_t max_manifest_bytes = 1ULL << 20;
  uint64_t max_config_plain_bytes = 256ULL << 20;
  // Plain bytes of one zstd frame; a reader holds a few frames in memory.
  uint64_t max_frame_bytes = 16ULL << 20;
  // zstd's window: 2^24 bytes are the largest frame.
  int max_window_log = 24;
};

// From here on the plain bytes of a layer are held against its size (Limits::max_ratio).
inline constexpr uint64_t kRatioCountsFrom = 64ULL << 20;

// What a reader takes for frames and contents under way: two of the largest frames, so that one is
// decoded while the other is written, and what they are decoded from.
inline constexpr uint64_t kReadMemoryBytes = 40ULL << 20;

inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxPathDepth = 32;

// The content of a file, as SHA-256.
using ContentHash = std::array<uint8_t, 32>;

std::string to_hex(const ContentHash& hash);
// kInvalid unless `hex` is 64 lower-case hexadecimal digits.
Result<ContentHash> parse_content_hash(std::string_view hex);

// "sha256:" and 64 lower-case hexadecimal digits: the only digests we write or accept.
bool is_digest(std::string_view text);

// Whether `path` may stand in an archive: relative, valid UTF-8 without control characters, no
// empty,
// "." or ".." component, at most kMaxPathBytes long (255 for each component) and kMaxPathDepth
// deep. The error says what is wrong.
Status check_archive_path(std::string_view path);

// How many directories `path` implies that `previous`, the path before it in sorted order, does
// not.
uint64_t new_directories(std::string_view previous, std::string_view path);

}  // namespace compilecache::archive
