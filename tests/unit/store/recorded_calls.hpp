#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

// Records what this program does to the files below one directory, and derives the states that a
// disk may have after a power failure. The functions of libc are replaced by ones that record their
// calls. Link recorded_calls.cpp into a test program of its own.
//
//   Recording recording(store);            // what is there now is on the disk
//   ... what is tested ...
//   recording.stop();
//   for (size_t n = 0; n <= recording.events(); ++n)
//     for (const Disk& disk : recording.after_power_loss(n, random)) ...
//
// The model is the weakest that POSIX allows. A file's bytes are safe after fsync of the file, its
// name after fsync of the directory. Any part of the later changes may be on the disk or not, in
// any order: writes as a whole, in part or as zeros, names one by one. Only a rename is all or
// nothing.

namespace compilecache::archive::test {

// The content of the disk: files with their bytes, and directories, by path below the root.
struct Disk {
  std::map<std::string, std::string> files;
  std::set<std::string> directories;
  bool operator<(const Disk& other) const {
    return files != other.files ? files < other.files : directories < other.directories;
  }
  bool operator==(const Disk&) const = default;
};
Disk read_disk(const std::string& root);
void write_disk(const Disk& disk, const std::string& root);

class Recording {
 public:
  explicit Recording(const std::string& root);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void stop();
  // The number of events so far. May be called while it records.
  [[nodiscard]] size_t events() const;
  // "rename blobs/sha256/a to blobs/sha256/b", for messages.
  [[nodiscard]] std::string describe(size_t event) const;
  // Different states that the disk may be in when the power fails after the first `events` events,
  // at most about `most`: the simple ones first, then some at random.
  [[nodiscard]] std::vector<Disk> after_power_loss(size_t events, std::mt19937_64& random,
                                                   size_t most) const;
  // The content that a running program sees after these events. After the last event it must equal
  // the real content, or else the recording missed something.
  [[nodiscard]] Disk live(size_t events) const;
};

}  // namespace compilecache::archive::test
