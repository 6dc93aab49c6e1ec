#include "tests/support/slow_volume/backing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

namespace compilecache::testing {

Backing::Backing(const char* folder) : root_(::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

int Backing::fd(fuse_ino_t node) const {
  return node == FUSE_ROOT_ID ? root_ : reinterpret_cast<const Node*>(node)->fd;
}

std::string Backing::proc_path(fuse_ino_t node) const {
  return "/proc/self/fd/" + std::to_string(fd(node));
}

bool Backing::look_up(fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
  const int found = ::openat(fd(parent), name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (found < 0) return false;
  if (::fstatat(found, "", &entry.attr, AT_EMPTY_PATH) != 0) {
    ::close(found);
    return false;
  }
  const std::lock_guard lock(mutex_);
  const std::pair id(entry.attr.st_dev, entry.attr.st_ino);
  Node& node = nodes_[id];
  if (node.lookups++ == 0) {
    node.fd = found;
    node.id = id;
  } else {
    ::close(found);
  }
  entry.ino = reinterpret_cast<fuse_ino_t>(&node);
  return true;
}

void Backing::forget(fuse_ino_t number, uint64_t count) {
  if (number == FUSE_ROOT_ID) return;
  const std::lock_guard lock(mutex_);
  Node* node = reinterpret_cast<Node*>(number);
  node->lookups -= count;
  if (node->lookups > 0) return;
  ::close(node->fd);
  nodes_.erase(node->id);
}

bool Backing::change(fuse_ino_t node, const struct stat& wanted, int which) {
  const std::string path = proc_path(node);
  if ((which & FUSE_SET_ATTR_MODE) != 0 && ::chmod(path.c_str(), wanted.st_mode) != 0) return false;
  if ((which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
    const uid_t user = (which & FUSE_SET_ATTR_UID) != 0 ? wanted.st_uid : static_cast<uid_t>(-1);
    const gid_t group = (which & FUSE_SET_ATTR_GID) != 0 ? wanted.st_gid : static_cast<gid_t>(-1);
    if (::chown(path.c_str(), user, group) != 0) return false;
  }
  if ((which & FUSE_SET_ATTR_SIZE) != 0 && ::truncate(path.c_str(), wanted.st_size) != 0)
    return false;
  if ((which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) == 0) return true;
  timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};
  if ((which & FUSE_SET_ATTR_ATIME) != 0) times[0] = wanted.st_atim;
  if ((which & FUSE_SET_ATTR_MTIME) != 0) times[1] = wanted.st_mtim;
  if ((which & FUSE_SET_ATTR_ATIME_NOW) != 0) times[0] = {0, UTIME_NOW};
  if ((which & FUSE_SET_ATTR_MTIME_NOW) != 0) times[1] = {0, UTIME_NOW};
  return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0;
}

bool list_directory(int fd, off_t offset, size_t size, fuse_req_t request,
                    std::vector<char>& entries) {
  // A stream of its own each time: calls for one directory may overlap.
  const int copy = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(copy < 0 ? nullptr : ::fdopendir(copy),
                                                   &::closedir);
  if (!stream) return false;
  if (offset != 0) ::seekdir(stream.get(), offset);
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) {
    struct stat info {};
    info.st_ino = entry->d_ino;
    info.st_mode = static_cast<mode_t>(entry->d_type) << 12;
    const size_t length = fuse_add_direntry(request, nullptr, 0, entry->d_name, nullptr, 0);
    if (entries.size() + length > size) return true;
    entries.resize(entries.size() + length);
    fuse_add_direntry(request, entries.data() + entries.size() - length, length, entry->d_name,
                      &info, entry->d_off);
    errno = 0;
  }
  return errno == 0;
}

}  // namespace compilecache::testing
