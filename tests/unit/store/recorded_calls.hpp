#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

// What this program does to the files below one directory, and from that what a disk may hold when
// the power fails: the functions of libc are replaced by ones that note what they do. Link
// recorded_calls.cpp into a test program of its own.
//
//   Recording recording(store);            // what is there now is on the disk
//   ... what is tested ...
//   recording.stop();
//   for (size_t n = 0; n <= recording.events(); ++n)
//     for (const Disk& disk : recording.after_power_loss(n, random)) ...
//
// The model is the weakest that POSIX allows. A file's bytes are safe after fsync of the file, its
// name after fsync of the directory. Of what came later every part may be there or not, in any
// order: writes as a whole, in part or as zeros, names one by one. Only a rename is all or nothing.

namespace compilecache::archive::test {

// What is on the disk: files with their bytes, and directories, by path below the root.
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
  // So far; also while it runs.
  [[nodiscard]] size_t events() const;
  // "rename blobs/sha256/a to blobs/sha256/b", for messages.
  [[nodiscard]] std::string describe(size_t event) const;
  // Different states that the disk may be in when the power fails after the first `events` events,
  // at most about `most`: the simple ones first, then some at random.
  [[nodiscard]] std::vector<Disk> after_power_loss(size_t events, std::mt19937_64& random,
                                                   size_t most) const;
  // What a program that goes on would see then. After the last event it is what really is there,
  // or else something was done that this recording did not see.
  [[nodiscard]] Disk live(size_t events) const;
};

}  // namespace compilecache::archive::test
