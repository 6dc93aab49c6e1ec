#include "store/directory/index_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "archive/fs.hpp"

namespace compilecache::store {
namespace {

constexpr const char* kIndexName = "index.json";
constexpr const char* kLockName = "index.lock";
constexpr mode_t kLockMode = 0666;
// An update takes milliseconds. A saver that is stopped in the middle of one holds up nobody.
constexpr std::chrono::milliseconds kLockPause{10};
constexpr int kLockTries = 200;

// Held by who changes the index, of whatever user.
class IndexLock {
 public:
  explicit IndexLock(const std::string& store) : file_(open(store + "/" + kLockName)) {
    for (int tries = 0; file_.valid() && tries < kLockTries; ++tries) {
      const int locked =
          archive::uninterrupted([this] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); });
      busy_ = locked != 0 && errno == EWOULDBLOCK;
      if (!busy_) return;  // where the volume has no locks too
      std::this_thread::sleep_for(kLockPause);
    }
  }
  // Others had it for all the time that was waited.
  [[nodiscard]] bool busy() const { return busy_; }

 private:
  static archive::Fd open(const std::string& path) {
    constexpr int kFlags = O_NOFOLLOW | O_CLOEXEC;
    archive::Fd made(archive::uninterrupted(
        [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | kFlags, kLockMode); }));
    if (made.valid()) {
      ::fchmod(made.get(), kLockMode);  // whatever the umask is
      return made;
    }
    return archive::Fd(
        archive::uninterrupted([&] { return ::open(path.c_str(), O_RDWR | kFlags); }));
  }

  archive::Fd file_;
  bool busy_ = false;
};

}  // namespace

// An update replaces a missing or damaged index; one that cannot be read now it does not, as
// others' entries would be lost with it.
Result<Index> read_index(const std::string& store) {
  const std::string path = store + "/" + kIndexName;
  auto text = archive::read_small_file(path, kMaxIndexBytes);
  if (text) return parse_index(*text, path);
  const ErrorCode code = text.error().code;
  // "Not found" may also mean that another client has just replaced the file (ESTALE).
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
  if (code == ErrorCode::kIo || code == ErrorCode::kForbidden ||
      (code == ErrorCode::kNotFound && there))
    return unexpected(text.error().with("reading the index of store " + store));
  return Index{{}, {text.error().message}};
}

Status write_index(const std::string& store, const std::vector<IndexEntry>& entries) {
  auto written = archive::replace_file(store, kIndexName, index_text(entries));
  if (!written) return unexpected(written.error().with("writing the index of store " + store));
  return {};
}

Status update_index(const std::string& store, const IndexEntry& entry) {
  if (auto usable = check_entry(entry, store); !usable) return usable;
  const IndexLock lock(store);
  auto index = read_index(store);
  if (!index) return unexpected(index.error().with("adding " + entry.name() + " to it"));
  if (!put_entry(index->entries, entry)) return {};
  return write_index(store, index->entries);
}

Status extend_index(const std::string& store, const std::string& expected,
                    const IndexEntry& entry) {
  if (auto usable = check_entry(entry, store); !usable) return usable;
  const IndexLock lock(store);
  if (lock.busy())
    return fail(ErrorCode::kUnavailable, "the index of store " + store + " is locked by others");
  auto index = read_index(store);
  if (!index) return unexpected(index.error().with("adding " + entry.name() + " to it"));
  if (auto extended = extend_entry(index->entries, expected, entry); !extended) return extended;
  return write_index(store, index->entries);
}

}  // namespace compilecache::store
