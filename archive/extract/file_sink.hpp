#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "archive/extract/content_queue.hpp"
#include "archive/extract/destination.hpp"
#include "archive/layer/layer_reader.hpp"
#include "archive/manifest.hpp"

namespace compilecache::archive {

// Hashes and creates the files of the layers on the session's threads; without a destination it
// only hashes them. Failures go to the session.
class FileSink : public LayerSink {
 public:
  // All must outlive it and the session's tasks. `destination` may be null.
  FileSink(ReadSession& session, const Config& config, Destination* destination);

  // Call these before and after each layer is read.
  void begin_layer(uint32_t layer);
  // kCorrupt: the layer lacks files that the config expects in it.
  Status end_layer();

  Status begin_file(const TarEntry& entry) override;
  Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) override;
  Status end_file() override;
  void end_frame() override;

 private:
  struct Wanted {
    const FileEntry* file;
    bool seen = false;
  };
  // The wanted files that the layer stores as one content.
  std::span<Wanted> wanted_as(std::string_view path);
  static Status check(const TarEntry& entry, std::span<const Wanted> wanted);

  ReadSession& session_;
  ContentQueue queue_;
  const Config& config_;
  Destination* destination_;
  std::vector<Wanted> wanted_;                      // of this layer, sorted by stored_as()
  std::shared_ptr<ContentQueue::Content> current_;  // null: its file is not wanted
};

}  // namespace compilecache::archive
