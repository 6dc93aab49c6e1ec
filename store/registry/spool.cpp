#include "store/registry/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <list>
#include <utility>

#include "base/mutex.hpp"

namespace compilecache::store {

// Thread-safe.
class SpoolRoom {
 public:
  explicit SpoolRoom(uint64_t limit) : limit_(limit) {}

  // False: even without what is kept there is no room for so much more.
  bool take(uint64_t bytes) {
    for (;;) {
      std::shared_ptr<SpoolFile> oldest;  // gives its room back once the lock is free
      const MutexLock lock(mutex_);
      if (used_ + bytes <= limit_) {
        used_ += bytes;
        return true;
      }
      if (kept_.empty()) return false;
      oldest = std::move(kept_.front().second);
      kept_.pop_front();
    }
  }
  void give_back(uint64_t bytes) {
    const MutexLock lock(mutex_);
    used_ -= bytes;
  }

  void keep(const std::string& digest, std::shared_ptr<SpoolFile> file) {
    const MutexLock lock(mutex_);
    kept_.emplace_back(digest, std::move(file));
  }
  std::shared_ptr<SpoolFile> find(const std::string& digest) const {
    const MutexLock lock(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(),
                                    [&](const auto& kept) { return kept.first == digest; });
    return found == kept_.end() ? nullptr : found->second;
  }
  void forget() {
    Kept gone;  // likewise
    const MutexLock lock(mutex_);
    gone.swap(kept_);
  }

  [[nodiscard]] uint64_t limit() const { return limit_; }

 private:
  using Kept = std::list<std::pair<std::string, std::shared_ptr<SpoolFile>>>;

  const uint64_t limit_;
  mutable Mutex mutex_;
  uint64_t used_ GUARDED_BY(mutex_) = 0;
  Kept kept_ GUARDED_BY(mutex_);
};

SpoolFile::SpoolFile(archive::Fd fd, std::shared_ptr<SpoolRoom> room, std::string folder)
    : fd_(std::move(fd)), room_(std::move(room)), folder_(std::move(folder)) {}

SpoolFile::~SpoolFile() { room_->give_back(size_); }

Status SpoolFile::write(std::span<const uint8_t> bytes) {
  if (!room_->take(bytes.size())) {
    return fail(ErrorCode::kTooLarge,
                "what is to be pushed to a registry is kept in " + folder_ + " first, at most " +
                    std::to_string(room_->limit()) +
                    " bytes: raise the pod's ephemeral-storage limit, or lower "
                    "spec.save.maxArchiveSize");
  }
  size_ += bytes.size();
  if (auto written = archive::write_all(fd_.get(), bytes, folder_ + " (unnamed)"); !written)
    return written;
  hash_.update(bytes);
  return {};
}

std::string SpoolFile::finish() { return "sha256:" + hash_.finish_hex(); }

Status SpoolFile::read_at(std::span<uint8_t> bytes, uint64_t offset) {
  auto count = archive::pread_full(fd_.get(), bytes, offset, folder_ + " (unnamed)");
  if (!count) return unexpected(count.error());
  if (*count == bytes.size()) return {};
  return fail(ErrorCode::kIo, "reading what was kept in " + folder_ + ": it became shorter");
}

Spool::Spool(std::string folder, uint64_t limit)
    : folder_(std::move(folder)), room_(std::make_shared<SpoolRoom>(limit)) {}

Spool::~Spool() { forget(); }

Result<std::shared_ptr<SpoolFile>> Spool::create() {
  int fd = archive::uninterrupted(
      [&] { return ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // Some file systems have no unnamed files: one whose name is removed at once is as good.
    std::string name = folder_ + "/spool.XXXXXX";
    fd = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd >= 0) ::unlink(name.c_str());
  }
  if (fd < 0) {
    return unexpected(
        archive::local_error("making a file in " + folder_ + " for what is to be pushed", errno));
  }
  return std::make_shared<SpoolFile>(archive::Fd(fd), room_, folder_);
}

void Spool::keep(const std::string& digest, std::shared_ptr<SpoolFile> file) {
  room_->keep(digest, std::move(file));
}

std::shared_ptr<SpoolFile> Spool::find(const std::string& digest) const {
  return room_->find(digest);
}

void Spool::forget() { room_->forget(); }

}  // namespace compilecache::store
