#include "archive/write/copy_sink.hpp"

namespace compilecache::archive {

Status CopySink::pack(Status packed) {
  if (!packed) refused_ = packed.error();
  return packed;
}

Status CopySink::begin_file(const TarEntry& entry) {
  const auto found = wanted_.find(entry.path);
  current_ = nullptr;
  if (found == wanted_.end()) return {};
  entries_ = std::move(found->second);
  wanted_.erase(found);
  current_ = entries_.front();
  for (const FileEntry* file : entries_) {
    if (file->size != entry.size || file->sha256 != current_->sha256)
      return fail(ErrorCode::kCorrupt, "layer and config disagree about " + file->path);
  }
  return pack(layer_.begin_file(current_->path, current_->size, current_->executable));
}

Status CopySink::data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>&) {
  if (current_ == nullptr) return {};
  hash_.update(bytes);
  return pack(layer_.data(bytes));
}

Status CopySink::end_file() {
  if (current_ == nullptr) return {};
  if (hash_.finish_hex() != to_hex(current_->sha256))
    return fail(ErrorCode::kCorrupt, "the content of " + current_->path + " is not as listed");
  if (auto ended = pack(layer_.end_file()); !ended) return ended;
  for (FileEntry* file : entries_) {
    file->from.clear();
    if (file == current_) continue;
    file->from = current_->path;
    if (auto added = pack(layer_.add_link(file->path, current_->path, file->executable)); !added)
      return added;
  }
  return {};
}

}  // namespace compilecache::archive
