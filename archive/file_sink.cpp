#include "archive/file_sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <deque>

#include "archive/fs.hpp"
#include "base/sha256.hpp"

namespace compilecache::archive {
namespace {

constexpr size_t kCopyBytes = 256U << 10;

}  // namespace

// One content on its way to the places where it belongs. Its pieces come in order; whichever thread
// is free takes the next ones, one thread at a time.
class OutputFile : public std::enable_shared_from_this<OutputFile> {
 public:
  struct Target {
    Place place;
    bool executable = false;
  };

  OutputFile(ReadSession& session, Destination* destination, const FileEntry& entry,
             std::vector<Target> targets)
      : session_(session),
        destination_(destination),
        path_(entry.path),
        size_(entry.size),
        expected_(to_hex(entry.sha256)),
        targets_(std::move(targets)) {}

  void add(std::span<const uint8_t> bytes, std::shared_ptr<const void> owner) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back({bytes, std::move(owner)});
      if (std::exchange(scheduled_, true)) return;
    }
    session_.pool.post_urgent([self = shared_from_this()] { self->work(); });
  }

 private:
  struct Piece {
    std::span<const uint8_t> bytes;
    std::shared_ptr<const void> owner;
  };

  void work() {
    for (;;) {
      Piece piece;
      {
        const std::lock_guard lock(mutex_);
        if (pieces_.empty()) {
          scheduled_ = false;
          return;
        }
        piece = std::move(pieces_.front());
        pieces_.pop_front();
      }
      if (session_.failure.failed()) continue;
      session_.guarded([&] { return take(piece.bytes); });
    }
  }

  Status take(std::span<const uint8_t> bytes) {
    hash_.update(bytes);
    received_ += bytes.size();
    const bool last = received_ == size_;
    // Checked before anything is created where that is possible.
    if (last) {
      if (auto same = check_hash(); !same) return same;
    }
    if (targets_.empty()) return {};
    if (!fd_.valid()) {
      auto created = destination_->create(targets_.front().place);
      if (!created) return unexpected(created.error());
      fd_ = std::move(*created);
    }
    if (auto written = write_all(fd_.get(), bytes, targets_.front().place.path()); !written)
      return written;
    return last ? finish() : Status{};
  }

  Status check_hash() {
    if (hash_.finish_hex() == expected_) return {};
    return fail(ErrorCode::kCorrupt, "the content of " + path_ + " is not what the config lists");
  }

  Status finish() {
    for (size_t i = 1; i < targets_.size(); ++i) {
      if (auto copied = copy_to(targets_[i]); !copied) return copied;
    }
    auto set = set_attributes(fd_.get(), targets_.front());
    fd_.reset();
    return set;
  }

  Status copy_to(const Target& target) {
    auto created = destination_->create(target.place);
    if (!created) return unexpected(created.error());
    std::vector<uint8_t> chunk(std::min<uint64_t>(size_, kCopyBytes));
    for (uint64_t done = 0; done < size_;) {
      auto count = pread_full(fd_.get(), chunk, done, targets_.front().place.path());
      if (!count) return unexpected(count.error());
      if (*count == 0) return fail(ErrorCode::kIo, "copying to " + target.place.path());
      if (auto written =
              write_all(created->get(), std::span(chunk).first(*count), target.place.path());
          !written)
        return written;
      done += *count;
    }
    return set_attributes(created->get(), target);
  }

  static Status set_attributes(int fd, const Target& target) {
    if (::fchmod(fd, target.executable ? 0777 : 0666) != 0)
      return unexpected(local_error("chmod of " + target.place.path(), errno));
    // The first read moves the access time, also where the volume is mounted with relatime.
    const timespec times[2] = {{1, 0}, {0, UTIME_OMIT}};
    if (::futimens(fd, times) != 0)
      return unexpected(local_error("setting the access time of " + target.place.path(), errno));
    return {};
  }

  ReadSession& session_;
  Destination* destination_;
  const std::string path_;
  const uint64_t size_;
  const std::string expected_;
  const std::vector<Target> targets_;

  std::mutex mutex_;
  std::deque<Piece> pieces_;
  bool scheduled_ = false;

  // Only the thread that works on it.
  Sha256 hash_;
  uint64_t received_ = 0;
  Fd fd_;
};

FileSink::FileSink(ReadSession& session, const Config& config, Destination* destination)
    : session_(session), config_(config), destination_(destination) {}

FileSink::~FileSink() = default;

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
    ++files_;
    if (destination_ == nullptr) continue;
    auto place = destination_->locate(file->path);
    if (!place) return unexpected(place.error());
    targets.push_back({std::move(**place), file->executable});
  }
  current_ = std::make_shared<OutputFile>(session_, destination_, *wanted.entries.front(),
                                          std::move(targets));
  if (entry.size == 0) current_->add({}, nullptr);
  return {};
}

Status FileSink::data(std::span<const uint8_t> bytes, const std::shared_ptr<const void>& owner) {
  if (current_) current_->add(bytes, owner);
  return {};
}

Status FileSink::end_file() {
  current_ = nullptr;
  return {};
}

}  // namespace compilecache::archive
