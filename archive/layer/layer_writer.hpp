#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "archive/blob_store.hpp"
#include "archive/checkpoint.hpp"
#include "archive/layer/frame_compressor.hpp"
#include "archive/layer/write_settings.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"

namespace compilecache::archive {

// Writes one layer: a tar of files, their directories and hard links, compressed in frames, as a
// blob. Destroyed before finish(), it leaves nothing behind. Not thread-safe.
class LayerWriter {
 public:
  // `other_bytes`: the size of the archive's other layers, for max_archive_bytes. All arguments
  // must outlive the writer.
  static Result<std::unique_ptr<LayerWriter>> create(BlobStore& store,
                                                     const WriteSettings& settings,
                                                     const Checkpoint& checkpoint,
                                                     uint64_t other_bytes);

  // Begin a file, give it exactly `size` bytes, and end it.
  Status begin_file(const std::string& path, uint64_t size, bool executable);
  Status data(std::span<const uint8_t> bytes);
  Status end_file();
  Status add_link(const std::string& path, const std::string& target, bool executable);

  // Call it once, after all files. kTooLarge: no reader would take it, or it is over
  // max_archive_bytes.
  Status end();

  // The plain bytes of all entries so far.
  [[nodiscard]] uint64_t plain_bytes() const { return compressor_.plain_bytes(); }
  // Valid after end(), also if that failed with kTooLarge.
  [[nodiscard]] const std::vector<Frame>& frames() const { return compressor_.frames(); }

  struct Finished {
    Descriptor descriptor;
    LayerStats stats;
    uint64_t written_bytes = 0;  // 0 if the store had it already
  };
  // Puts the blob in its place. Call it after end().
  Result<Finished> finish(const std::vector<std::string>& without);

 private:
  LayerWriter(std::unique_ptr<BlobWriter> blob, const WriteSettings& settings,
              const Checkpoint& checkpoint, uint64_t other_bytes);

  Status add_directories(const std::string& path);
  Status append(std::span<const uint8_t> bytes);
  Status append_zeros(size_t count);
  Status check();

  const std::unique_ptr<BlobWriter> blob_;
  const WriteSettings& settings_;
  const Checkpoint& checkpoint_;
  const uint64_t other_bytes_;
  FrameCompressor compressor_;
  std::set<std::string> directories_;
  uint64_t file_bytes_ = 0;  // of the file begun
  uint64_t content_bytes_ = 0;
  uint64_t entries_ = 0;
};

}  // namespace compilecache::archive
