#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// The folder beneath the mounted one: which of its files the kernel knows, as descriptors that stay
// valid when the file is renamed or removed. As in libfuse's example/passthrough_ll.c.

namespace compilecache::testing {

class Backing {
 public:
  explicit Backing(const char* folder);
  [[nodiscard]] bool usable() const { return root_ >= 0; }

  // Thread-safe. False, with errno, where it cannot be.
  bool look_up(fuse_ino_t parent, const char* name, fuse_entry_param& entry);
  void forget(fuse_ino_t node, uint64_t count);
  bool change(fuse_ino_t node, const struct stat& wanted, int which);

  // An O_PATH descriptor, valid until the node is forgotten.
  [[nodiscard]] int fd(fuse_ino_t node) const;
  // By which it can be opened for reading and writing.
  [[nodiscard]] std::string proc_path(fuse_ino_t node) const;

 private:
  struct Node {
    int fd = -1;
    uint64_t lookups = 0;
    std::pair<dev_t, ino_t> id;
  };
  int root_;
  std::mutex mutex_;
  std::map<std::pair<dev_t, ino_t>, Node> nodes_;  // their addresses are the kernel's numbers
};

// Up to `size` bytes of entries from `offset` on. False, with errno, on failure.
bool list_directory(int fd, off_t offset, size_t size, fuse_req_t request,
                    std::vector<char>& entries);

}  // namespace compilecache::testing
