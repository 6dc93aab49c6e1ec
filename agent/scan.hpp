#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "archive/fs.hpp"
#include "base/error.hpp"
#include "frameworks/scan.hpp"

// Looks at what is in a framework's directory, without reading any file.

namespace compilecache::agent {

// Files and directories that this process may not read, by the user who owns them.
struct Unreadable {
  std::map<int64_t, uint64_t> by_owner;

  void add(int64_t owner) { ++by_owner[owner]; }
  void add(const Unreadable& others);
  [[nodiscard]] uint64_t count() const;
  // The user who could read most of them; -1: none but this process' own.
  [[nodiscard]] int64_t owner() const;
};

struct WalkResult {
  Unreadable unreadable_directories;
  bool truncated = false;  // more than kMaxScanned
};

// A folder that the app can change; nothing below it is reached by a link. Null: not there.
using AppFolder = std::shared_ptr<const archive::Fd>;

struct ScanResult : WalkResult {
  frameworks::Scan items;
  AppFolder folder;  // where they were seen
};

// As many files as an archive may have (archive::Limits), with room for what is not packed. Bounds
// the saver's memory.
inline constexpr size_t kMaxScanned = 100'000;

// Shows every file and folder. A directory that is not there is empty; what vanishes meanwhile is
// left out. Links are shown and never followed. kIo when the directory itself cannot be read.
using SeeFile = std::function<void(frameworks::FileInfo&& file)>;
Result<WalkResult> walk_directory(const std::string& directory, const SeeFile& see);

// Keeps what it sees.
Result<ScanResult> scan_directory(const std::string& directory);

// The text of a regular file of the app's, `path` below the folder. A loaded file that is read by
// the app shows it by its access time, so a file whose time cannot be left alone (another user's)
// is not read: an error. kTooLarge above `most` bytes.
Result<std::string> read_quietly(const AppFolder& folder, const std::string& path, size_t most);
// The same of a file that was not loaded, whose access time tells nothing.
Result<std::string> read_made(const AppFolder& folder, const std::string& path, size_t most);

// Whether ELF files are whole, each looked at once for as long as it does not change. Reading must
// not look like the app's: access times are left alone where the kernel lets us.
// Not thread-safe.
class ElfCache {
 public:
  bool whole(const AppFolder& folder, const frameworks::FileInfo& file);

 private:
  struct Seen {
    uint64_t size;
    WallTime modified;
    bool whole;
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace compilecache::agent
