#include "archive/layer/layer_writer.hpp"

#include <array>

#include "archive/layer/tar_parser.hpp"
#include "archive/layer/tar_writer.hpp"
#include "base/quantity.hpp"

namespace compilecache::archive {
namespace {

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

LayerWriter::LayerWriter(std::unique_ptr<BlobWriter> blob, const WriteSettings& settings,
                         const Checkpoint& checkpoint, uint64_t other_bytes)
    : blob_(std::move(blob)),
      settings_(settings),
      checkpoint_(checkpoint),
      other_bytes_(other_bytes),
      compressor_(*blob_, {.level = settings.compression_level,
                           .frame_bytes = settings.frame_bytes,
                           .threads = settings.threads,
                           .memory_bytes = settings.compressor_bytes}) {}

Result<std::unique_ptr<LayerWriter>> LayerWriter::create(BlobStore& store,
                                                         const WriteSettings& settings,
                                                         const Checkpoint& checkpoint,
                                                         uint64_t other_bytes) {
  auto blob = store.create(kLayerMediaType);
  if (!blob) return unexpected(blob.error());
  return std::unique_ptr<LayerWriter>(
      new LayerWriter(std::move(*blob), settings, checkpoint, other_bytes));
}

Status LayerWriter::begin_file(const std::string& path, uint64_t size, bool executable) {
  if (auto added = add_directories(path); !added) return added;
  file_bytes_ = size;
  content_bytes_ += size;
  ++entries_;
  return append(
      as_bytes(tar_header({path, TarType::kFile, size, executable, "", settings_.variation})));
}

Status LayerWriter::data(std::span<const uint8_t> bytes) { return append(bytes); }

Status LayerWriter::end_file() { return append_zeros(tar_padding(file_bytes_)); }

Status LayerWriter::add_link(const std::string& path, const std::string& target, bool executable) {
  if (auto added = add_directories(path); !added) return added;
  ++entries_;
  return append(
      as_bytes(tar_header({path, TarType::kHardLink, 0, executable, target, settings_.variation})));
}

Status LayerWriter::end() {
  if (auto ended = append_zeros(kTarEndBytes); !ended) return ended;
  if (auto finished = compressor_.finish(); !finished) return finished;
  if (auto fine = check(); !fine) return fine;
  const uint64_t plain = compressor_.plain_bytes();
  if (entries_ > max_tar_entries(settings_.limits) || plain > settings_.limits.max_plain_bytes ||
      (plain > kRatioCountsFrom && plain / settings_.limits.max_ratio > blob_->size())) {
    return fail(ErrorCode::kTooLarge, "the layer has " + std::to_string(entries_) +
                                          " entries and " + format_bytes(plain) + " packed into " +
                                          format_bytes(blob_->size()) +
                                          ", which no reader would accept: cache less");
  }
  return {};
}

Result<LayerWriter::Finished> LayerWriter::finish(const std::vector<std::string>& without) {
  auto blob = blob_->commit(without);
  if (!blob) return unexpected(blob.error());
  return Finished{{kLayerMediaType, blob->digest, blob->size},
                  {compressor_.plain_bytes(), content_bytes_},
                  blob->existed ? 0 : blob->size};
}

Status LayerWriter::add_directories(const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string directory = path.substr(0, slash);
    if (!directories_.insert(directory).second) continue;
    ++entries_;
    if (auto added = append(as_bytes(
            tar_header({directory, TarType::kDirectory, 0, true, "", settings_.variation})));
        !added)
      return added;
  }
  return {};
}

Status LayerWriter::append(std::span<const uint8_t> bytes) {
  if (auto appended = compressor_.append(bytes); !appended) return appended;
  return check();
}

Status LayerWriter::append_zeros(size_t count) {
  static constexpr std::array<uint8_t, kTarEndBytes> kZeros{};
  return append(std::span(kZeros).first(count));
}

Status LayerWriter::check() {
  const uint64_t written = compressor_.written_bytes();
  if (other_bytes_ + written > settings_.max_archive_bytes) {
    return fail(ErrorCode::kTooLarge,
                "the archive would be larger than " + format_bytes(settings_.max_archive_bytes) +
                    ": raise save.maxArchiveSize, or let the app compile less");
  }
  if (checkpoint_ && !checkpoint_({written, compressor_.plain_bytes(), 0, 0}))
    return fail(ErrorCode::kCancelled, "writing the archive: given up by the caller");
  return {};
}

}  // namespace compilecache::archive
