#include "archive/file_sink.hpp"

namespace compilecache::archive {

FileSink::FileSink(ReadSession& session, const Config& config, Destination* destination)
    : queue_(session), config_(config), destination_(destination) {}

void FileSink::begin_layer(uint32_t layer) {
  wanted_.clear();
  for (const FileEntry& file : config_.files) {
    if (file.layer != layer) continue;
    if (destination_ != nullptr && !destination_->is_mapped(file.path)) continue;
    wanted_[file.stored_as()].entries.push_back(&file);
  }
}

Status FileSink::end_layer() {
  for (const auto& [path, wanted] : wanted_) {
    if (!wanted.seen) return fail(ErrorCode::kCorrupt, "the layer lacks " + std::string(path));
  }
  return {};
}

Status FileSink::check(const TarEntry& entry, const Wanted& wanted) const {
  const FileEntry& first = *wanted.entries.front();
  for (const FileEntry* file : wanted.entries) {
    if (file->size != entry.size || file->sha256 != first.sha256) {
      return fail(ErrorCode::kCorrupt,
                  "layer and config disagree about " + file->path + " (size or hash)");
    }
  }
  return {};
}

Status FileSink::begin_file(const TarEntry& entry) {
  current_ = nullptr;
  const auto found = wanted_.find(entry.path);
  if (found == wanted_.end()) return {};  // superseded by a later layer, or not mapped
  Wanted& wanted = found->second;
  wanted.seen = true;
  if (auto fits = check(entry, wanted); !fits) return fits;
  std::vector<OutputFile::Target> targets;
  for (const FileEntry* file : wanted.entries) {
    if (destination_ == nullptr) continue;
    auto place = destination_->locate(file->path);
    if (!place) return unexpected(place.error());
    targets.push_back({std::move(**place), file->executable});
  }
  current_ = ContentQueue::begin(
      std::make_unique<OutputFile>(destination_, *wanted.entries.front(), std::move(targets)));
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
