#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "archive/fs.hpp"
#include "base/error.hpp"
#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"

// Scans a framework's directory without reading any file.

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
  bool truncated = false;  // there were more than kMaxScanned
  std::string cut;         // then: the folder of which not all was seen, "" for the scanned one
};

// An open folder that the app can change; nothing below it is reached through a link. Null: it does
// not exist.
using AppFolder = std::shared_ptr<const archive::Fd>;

struct ScanResult : WalkResult {
  frameworks::Scan items;
  AppFolder folder;  // the scanned folder
};

// As many files as an archive may have (archive::Limits), with room for what is not packed. Bounds
// the saver's memory.
inline constexpr size_t kMaxScanned = 100'000;

// Calls `see` for every file and folder. A directory that does not exist is empty; files that
// vanish meanwhile are left out. Links are passed to `see`, but never followed. kIo when the
// directory itself cannot be read.
using SeeFile = std::function<void(frameworks::FileInfo&& file)>;
Result<WalkResult> walk_directory(const std::string& directory, const SeeFile& see);

// Walks the directory and returns all that is in it.
Result<ScanResult> scan_directory(const std::string& directory);

// Reads a regular file of the app's, `path` below the folder, without changing its access time,
// since that shows whether the app has read a loaded file. It is an error where the time would
// change (another user's file). kTooLarge above `most` bytes.
Result<std::string> read_quietly(const AppFolder& folder, const std::string& path, size_t most);
// Reads a file that was not loaded, whose access time does not matter.
Result<std::string> read_made(const AppFolder& folder, const std::string& path, size_t most);

// Checks whether files are whole, each once as long as it does not change. Access times are left
// alone where the kernel allows that, so that our reads are not taken for the app's. Not
// thread-safe.
class WholeFiles {
 public:
  // Whether the file is whole, as far as `by` tells. One that may not be read is not taken for
  // torn.
  bool whole(const AppFolder& folder, const frameworks::FileInfo& file,
             frameworks::Rules::WholeBy by);

 private:
  struct Seen {
    uint64_t size;
    WallTime modified;
    bool whole;
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace compilecache::agent
