#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/support/slow_volume/state.hpp"

// A mounted volume that stands in for a network file system: a folder seen through FUSE, without
// any caching by the kernel. It counts operations, delays them, fails them or hangs, as set at
// run time. /dev/fuse is needed, and root or Debian's fuse3.
//
//   if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
//   SlowVolume volume;
//   store::DirectoryStore store(volume.path("store"));
//   volume.reset_counts();
//   archive::extract(store, ...);
//   EXPECT_LE(volume.count(kMetadataOperations), 12);
//
//   volume.fail(ENOSPC, kChangingOperations);       // until work()
//   volume.fail(EIO, kDataOperations, 3, 1);        // only the fourth
//   volume.hang(kDataOperations);                   // until work() or the end
//
// Unmounted, and all in it removed, at the end of the object, also when the process dies. What
// hangs then fails with ENOTCONN or EIO. Thread-safe.

namespace compilecache::testing {

class SlowVolume {
 public:
  // Why no volume can be mounted here.
  static std::optional<std::string> missing();

  // Below a new folder of the temporary directory. Throws std::runtime_error.
  SlowVolume();
  ~SlowVolume();
  SlowVolume(const SlowVolume&) = delete;
  SlowVolume& operator=(const SlowVolume&) = delete;

  // As a user of the volume sees it, and the same file beneath: without delay, faults and counting.
  [[nodiscard]] std::string path(const std::string& relative = "") const;
  [[nodiscard]] std::string backing(const std::string& relative = "") const;

  void delay(std::chrono::microseconds each);
  // Sets the clock that gives files their times behind the system's.
  void clock_behind(std::chrono::seconds by);
  // What all readers together get; 0: no limit.
  void throughput(uint64_t bytes_per_second);
  void fail(int error_number, VolumeOperations operations, int64_t skip = 0,
            int64_t times = INT64_MAX);
  void hang(VolumeOperations operations = kAllOperations);
  [[nodiscard]] uint32_t hanging() const;  // operations that wait now
  void work();                             // no faults, nothing hangs; delay and counts stay

  [[nodiscard]] uint64_t count(VolumeOperations operations) const;
  void reset_counts();
  // "lookup 4, open 3, read 17", for messages.
  [[nodiscard]] std::string counts() const;

 private:
  void start();
  void wait_until_mounted();
  void unmount();

  std::string folder_;
  VolumeState* state_ = nullptr;
  int server_ = -1;
  int lifeline_ = -1;  // the server ends when this is closed
};

}  // namespace compilecache::testing
