#include "tests/support/small_disk.hpp"

#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace compilecache::testing {
namespace {

// The error, or "".
std::string mount_memory(const std::string& folder, uint64_t bytes, unsigned long flags) {
  const std::string size = "size=" + std::to_string(bytes);
  if (::mount("tmpfs", folder.c_str(), "tmpfs", flags, size.c_str()) == 0) return "";
  return "mounting a tmpfs, which root may: " + std::string(std::strerror(errno));
}

}  // namespace

SmallDisk::SmallDisk(std::string folder, uint64_t bytes) : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  problem_ = mount_memory(folder_, bytes, MS_NOSUID | MS_NODEV);
}

SmallDisk::~SmallDisk() {
  if (problem_.empty()) ::umount2(folder_.c_str(), MNT_DETACH);
}

std::string SmallDisk::resize(uint64_t bytes) {
  return mount_memory(folder_, bytes, MS_NOSUID | MS_NODEV | MS_REMOUNT);
}

uint64_t SmallDisk::free_bytes() const {
  struct statvfs facts {};
  ::statvfs(folder_.c_str(), &facts);
  return facts.f_bavail * facts.f_frsize;
}

}  // namespace compilecache::testing
