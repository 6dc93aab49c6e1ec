#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

// The names and limits of the archive format; docs/design/archive-format.md explains them.

namespace compilecache::archive {

inline constexpr int kFormatVersion = 1;

// The manifest's artifactType. It identifies our manifests in a registry.
inline constexpr const char* kArtifactType = "application/vnd.compilecache.archive.v1";
// The config: zstd-compressed JSON that lists every file.
inline constexpr const char* kConfigMediaType =
    "application/vnd.compilecache.archive.config.v1+json+zstd";
// A layer is exactly what the OCI image specification calls a zstd-compressed tar, so it has that
// media type, and tools that know layers can unpack it.
inline constexpr const char* kLayerMediaType = "application/vnd.oci.image.layer.v1.tar+zstd";
inline constexpr const char* kManifestMediaType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kIndexMediaType = "application/vnd.oci.image.index.v1+json";

// Annotations. The first is defined by OCI: the name of an entry in index.json, which `skopeo
// inspect oci:DIR:NAME` looks up. In our stores it is the archive's name.
inline constexpr const char* kAnnotationName = "org.opencontainers.image.ref.name";
// Decimal number that grows with every commit of an archive; of two entries with one name the
// higher one counts.
inline constexpr const char* kAnnotationGeneration = "dev.compilecache.generation";
// RFC 3339.
inline constexpr const char* kAnnotationSavedAt = "dev.compilecache.saved-at";
// How long the pods that made the archive compiled, in seconds: "41.237". A load may take half of
// it. The manifest has it too, so that an index can be rebuilt.
inline constexpr const char* kAnnotationCompileSeconds = "dev.compilecache.compile-seconds";
// Followed by the name of a part of the key: "dev.compilecache.key.GPUProduct".
inline constexpr const char* kAnnotationKeyPrefix = "dev.compilecache.key.";

// A save that would exceed this number of layers writes one full layer instead: with each layer a
// load opens one more file and reads more superseded files.
inline constexpr size_t kMaxLayers = 4;

// The limits of what a reader accepts. A writer makes nothing that a reader would refuse.
struct Limits {
  uint64_t max_entries = 80'000;
  // Directories that the files' paths imply: two for each file. A few bytes of a path cost a system
  // call here.
  uint64_t max_directories = 160'000;
  // The length of all paths together. They are kept in memory while an archive is read.
  uint64_t max_path_bytes = 64ULL << 20;
  uint64_t max_plain_bytes = 64ULL << 30;
  // The ratio of plain to compressed bytes of a layer, checked from kRatioCountsFrom on. Real
  // caches of near-equal files reach 220 (vLLM's subgraphs).
  uint64_t max_ratio = 2'000;
  uint64_t max_manifest_bytes = 1ULL << 20;
  uint64_t max_config_plain_bytes = 256ULL << 20;
  // Plain bytes of one zstd frame; a reader holds a few frames in memory.
  uint64_t max_frame_bytes = 16ULL << 20;
  // The largest window of zstd: 2^24 bytes, the size of the largest frame.
  int max_window_log = 24;
};

// From this number of plain bytes on, a layer's ratio is checked (Limits::max_ratio).
inline constexpr uint64_t kRatioCountsFrom = 64ULL << 20;

// The memory that a reader uses for frames and file contents: two of the largest frames, so that
// one is decoded while the other is written, and their compressed bytes.
inline constexpr uint64_t kReadMemoryBytes = 40ULL << 20;

inline constexpr size_t kMaxPathBytes = 4096;
inline constexpr size_t kMaxPathDepth = 32;

// The SHA-256 of a file's content.
using ContentHash = std::array<uint8_t, 32>;

std::string to_hex(const ContentHash& hash);
// kInvalid unless `hex` is 64 lower-case hexadecimal digits.
Result<ContentHash> parse_content_hash(std::string_view hex);

// Whether `text` is "sha256:" and 64 lower-case hexadecimal digits, the only digests that we write
// or accept.
bool is_digest(std::string_view text);

// Whether an archive may contain `path`: it is relative, valid UTF-8 without control characters,
// has no component that is empty, "." or "..", and is at most kMaxPathBytes long (255 for each
// component) and kMaxPathDepth deep. The error says what is wrong.
Status check_archive_path(std::string_view path);

// How many directories `path` has that `previous`, the path before it in sorted order, has not.
uint64_t new_directories(std::string_view previous, std::string_view path);

}  // namespace compilecache::archive
