#pragma once

#include <cstdint>
#include <string>

// A file system of a few megabytes in memory, to be full.
//
//   SmallDisk disk(folder, 4 << 20);
//   if (!disk.problem().empty()) GTEST_SKIP() << disk.problem();
//   disk.resize(64 << 20);

namespace compilecache::testing {

// Unmounted by the destructor, also while something is open on it.
class SmallDisk {
 public:
  // `folder` is made if it is not there.
  SmallDisk(std::string folder, uint64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Why there is none: only root may mount, and not in every container. Empty: there is one.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Makes room, or takes it: the error, or "".
  std::string resize(uint64_t bytes);
  [[nodiscard]] const std::string& folder() const { return folder_; }
  [[nodiscard]] uint64_t free_bytes() const;

 private:
  const std::string folder_;
  std::string problem_;
};

}  // namespace compilecache::testing
