#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "archive/layer/layer_reader.hpp"
#include "archive/layer/layer_writer.hpp"
#include "archive/manifest.hpp"
#include "base/error.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {

// Copies the files of a parent's layer that are still in use into a new layer. Each content is
// checked against its hash in the config: kCorrupt.
class CopySink : public LayerSink {
 public:
  // The contents of one layer, by the path under which it stores them.
  using Wanted = std::unordered_map<std::string, std::vector<FileEntry*>>;

  // The entries are updated with the paths under which the new layer has them; they and the layer
  // must outlive the sink.
  CopySink(LayerWriter& layer, Wanted wanted) : layer_(layer), wanted_(std::move(wanted)) {}

  Status begin_file(const TarEntry& entry) override;
  Status data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) override;
  Status end_file() override;

  // Whether the layer had all wanted contents.
  [[nodiscard]] bool complete() const { return wanted_.empty(); }

  // The files that the new layer refused. The reader of the old one adds its digest to the error
  // that ends the reading, though nothing is wrong with it.
  [[nodiscard]] const std::optional<Error>& refused() const { return refused_; }

 private:
  Status pack(Status packed);

  LayerWriter& layer_;
  Wanted wanted_;
  std::vector<FileEntry*> entries_;
  FileEntry* current_ = nullptr;
  Sha256 hash_;
  std::optional<Error> refused_;
};

}  // namespace compilecache::archive
