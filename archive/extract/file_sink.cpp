#include "archive/extract/file_sink.hpp"

#include <algorithm>

namespace compilecache::archive {

FileSink::FileSink(ReadSession& session, const Config& config, Destination* destination)
    : session_(session), queue_(session), config_(config), destination_(destination) {}

void FileSink::begin_layer(uint32_t layer) {
  wanted_.clear();
  for (const FileEntry& file : config_.files) {
    if (file.layer != layer) continue;
    if (destination_ != nullptr && !destination_->is_mapped(file.path)) continue;
    wanted_.push_back({&file});
  }
  std::stable_sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
    return a.file->stored_as() < b.file->stored_as();
  });
}

std::span<FileSink::Wanted> FileSink::wanted_as(std::string_view path) {
  const auto first = std::lower_bound(
      wanted_.begin(), wanted_.end(), path,
      [](const Wanted& wanted, std::string_view text) { return wanted.file->stored_as() < text; });
  const auto end = std::find_if(
      first, wanted_.end(), [&](const Wanted& wanted) { return wanted.file->stored_as() != path; });
  return {first, end};
}

Status FileSink::end_layer() {
  for (const Wanted& wanted : wanted_) {
    if (!wanted.seen)
      return fail(ErrorCode::kCorrupt, "the layer lacks " + wanted.file->stored_as());
  }
  return {};
}

Status FileSink::check(const TarEntry& entry, std::span<const Wanted> wanted) {
  const FileEntry& first = *wanted.front().file;
  for (const auto& [file, seen] : wanted) {
    if (file->size != entry.size || file->sha256 != first.sha256) {
      return fail(ErrorCode::kCorrupt,
                  "layer and config disagree about " + file->path + " (size or hash)");
    }
  }
  return {};
}

Status FileSink::begin_file(const TarEntry& entry) {
  current_ = nullptr;
  const std::span<Wanted> wanted = wanted_as(entry.path);
  if (wanted.empty()) return {};  // superseded by a later layer, or not mapped
  if (auto fits = check(entry, wanted); !fits) return fits;
  std::vector<OutputFile::Target> targets;
  for (auto& [file, seen] : wanted) {
    seen = true;
    if (destination_ == nullptr) continue;
    // A frame may have many thousands of files, each with up to thirty directories.
    if (auto fine = session_.check(); !fine) return fine;
    auto place = destination_->locate(file->path);
    if (!place) return unexpected(place.error());
    targets.push_back({std::move(**place), file->executable, file->modified_ns});
  }
  current_ = ContentQueue::begin(std::make_unique<OutputFile>(
      session_, destination_, *wanted.front().file, std::move(targets)));
  if (entry.size == 0) queue_.add(current_, {}, nullptr);
  return {};
}

Status FileSink::data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) {
  if (current_) queue_.add(current_, bytes, owner);
  return {};
}

Status FileSink::end_file() {
  current_ = nullptr;
  return {};
}

void FileSink::end_frame() { queue_.flush(); }

}  // namespace compilecache::archive
