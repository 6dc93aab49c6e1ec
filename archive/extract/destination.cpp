#include "archive/extract/destination.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace compilecache::archive {
namespace {

constexpr mode_t kOpenToAll = 0777;
// Processes may usually have 1024 descriptors; a load also works with a lower limit.
constexpr size_t kMaxOpenDirectories = 100;
constexpr int kOpenDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// An application of any user must be able to write there, whatever our umask is.
Status open_to_all(int fd, const Folder& folder) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return unexpected(local_error("looking at " + folder.path(), errno));
  if ((info.st_mode & kOpenToAll) == kOpenToAll) return {};
  if (::fchmod(fd, (info.st_mode & 07777) | kOpenToAll) == 0) return {};
  return unexpected(local_error(
      "making " + folder.path() + " writable for every user (make it 0777, or let its owner load)",
      errno));
}

// Removes a file or a whole directory, which has only extracted files.
bool remove_tree(int parent, const char* name) {
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const int fd = uninterrupted([&] { return ::openat(parent, name, kOpenDirectoryFlags); });
  if (fd < 0) return false;
  DIR* stream = ::fdopendir(fd);
  if (stream == nullptr) {
    ::close(fd);
    return false;
  }
  bool clean = true;
  while (const dirent* entry = ::readdir(stream)) {
    if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
    clean = remove_tree(::dirfd(stream), entry->d_name) && clean;
  }
  ::closedir(stream);
  return ::unlinkat(parent, name, AT_REMOVEDIR) == 0 && clean;
}

}  // namespace

Result<std::unique_ptr<Destination>> Destination::open(const std::vector<RootMapping>& roots) {
  auto destination = std::make_unique<Destination>();
  for (const RootMapping& mapping : roots) {
    if (auto opened = destination->open_root(mapping); !opened) {
      const Error error = opened.error();
      (void)destination->remove_created();
      return unexpected(error);
    }
  }
  return destination;
}

size_t Destination::ChildHash::operator()(const Child& child) const {
  const size_t parent = std::hash<const Folder*>{}(child.first);
  return std::hash<std::string_view>{}(child.second) ^ (parent * 0x9e3779b97f4a7c15);
}

size_t Destination::ChildHash::operator()(const FolderPtr& folder) const {
  return (*this)(ChildEqual::child(folder));
}

Status Destination::open_root(const RootMapping& mapping) {
  const auto same = [&](const Root& root) {
    return root.prefix == (mapping.root.empty() ? "" : mapping.root + "/");
  };
  if (mapping.root.find('/') != std::string::npos || mapping.directory.empty() ||
      std::any_of(roots_.begin(), roots_.end(), same)) {
    return fail(ErrorCode::kInvalid, "mapping \"" + mapping.root + "\" to \"" + mapping.directory +
                                         "\": want one directory for each top-level name");
  }
  bool made = true;
  if (::mkdir(mapping.directory.c_str(), kOpenToAll) != 0) {
    if (errno != EEXIST) return unexpected(local_error("creating " + mapping.directory, errno));
    made = false;
  } else {
    made_roots_.push_back(mapping.directory);
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::open(mapping.directory.c_str(), kFlags); }));
  if (!fd.valid()) return unexpected(local_error("opening " + mapping.directory, errno));
  const Folder folder{nullptr, mapping.directory, made};
  if (auto opened = open_to_all(fd.get(), folder); !opened) return opened;
  roots_.push_back({mapping.root.empty() ? "" : mapping.root + "/",
                    std::make_shared<const Folder>(folder),
                    std::make_shared<const Fd>(std::move(fd))});
  return {};
}

const Destination::Root* Destination::root_of(std::string_view archive_path) const {
  const Root* best = nullptr;
  for (const Root& root : roots_) {
    if (archive_path.starts_with(root.prefix) &&
        (best == nullptr || root.prefix.size() > best->prefix.size())) {
      best = &root;
    }
  }
  return best;
}

bool Destination::is_mapped(std::string_view archive_path) const {
  return root_of(archive_path) != nullptr;
}

Result<std::optional<Place>> Destination::locate(const std::string& archive_path) {
  const Root* root = root_of(archive_path);
  if (root == nullptr) return std::nullopt;
  FolderPtr folder = root->folder;
  std::string_view rest = std::string_view(archive_path).substr(root->prefix.size());
  for (size_t slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
    auto entered = enter(folder, rest.substr(0, slash));
    if (!entered) return unexpected(entered.error());
    folder = std::move(*entered);
    rest.remove_prefix(slash + 1);
  }
  return Place{std::move(folder), std::string(rest)};
}

Result<Destination::FolderPtr> Destination::enter(const FolderPtr& parent, std::string_view name) {
  if (const auto known = folders_.find(Child{parent.get(), name}); known != folders_.end())
    return *known;
  auto folder = std::make_shared<Folder>(Folder{parent, std::string(name), false});
  auto above = opened(*parent);
  if (!above) return unexpected(above.error());
  folder->made = ::mkdirat((*above)->get(), folder->name.c_str(), kOpenToAll) == 0;
  if (!folder->made && errno != EEXIST)
    return unexpected(local_error("creating directory " + folder->path(), errno));
  if (folder->made && !parent->made) remember(parent, folder->name);
  folders_.insert(folder);
  auto fd = opened(*folder);
  if (!fd) return unexpected(fd.error());
  if (auto open = open_to_all((*fd)->get(), *folder); !open) return unexpected(open.error());
  return folder;
}

Result<std::shared_ptr<const Fd>> Destination::opened(const Folder& folder) {
  if (!folder.parent) {
    const auto same = [&](const Root& root) { return root.folder.get() == &folder; };
    return std::find_if(roots_.begin(), roots_.end(), same)->fd;
  }
  {
    const MutexLock lock(mutex_);
    if (const auto known = open_.find(&folder); known != open_.end()) return known->second;
  }
  auto above = opened(*folder.parent);
  if (!above) return above;
  auto fd = std::make_shared<const Fd>(uninterrupted(
      [&] { return ::openat((*above)->get(), folder.name.c_str(), kOpenDirectoryFlags); }));
  if (!fd->valid()) return unexpected(local_error("opening directory " + folder.path(), errno));
  const MutexLock lock(mutex_);
  if (open_.size() >= kMaxOpenDirectories) open_.clear();
  open_[&folder] = fd;
  return fd;
}

Result<Fd> Destination::create(const Place& place) {
  auto folder = opened(*place.folder);
  if (!folder) return unexpected(folder.error());
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(
      uninterrupted([&] { return ::openat((*folder)->get(), place.name.c_str(), kFlags, 0666); }));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EEXIST) {
      return fail(ErrorCode::kConflict,
                  "creating " + place.path() + ": it exists; load into an empty directory");
    }
    return unexpected(local_error("creating " + place.path(), error));
  }
  if (!place.folder->made) remember(place.folder, place.name);
  return fd;
}

void Destination::remember(const FolderPtr& parent, const std::string& name) {
  const MutexLock lock(mutex_);
  made_.push_back({parent, name});
}

Status Destination::remove_created() {
  std::vector<Place> made;
  {
    const MutexLock lock(mutex_);
    made.swap(made_);
  }
  std::string left;
  for (auto it = made.rbegin(); it != made.rend(); ++it) {
    const auto folder = opened(*it->folder);
    if (!folder || !remove_tree((*folder)->get(), it->name.c_str())) left = it->path();
  }
  for (auto it = made_roots_.rbegin(); it != made_roots_.rend(); ++it) {
    if (!remove_tree(AT_FDCWD, it->c_str())) left = *it;
  }
  made_roots_.clear();
  {
    const MutexLock lock(mutex_);
    open_.clear();
  }
  if (left.empty()) return {};
  return fail(ErrorCode::kIo, "removing what was created: " + left +
                                  " is still there; empty it before the app starts");
}

}  // namespace compilecache::archive
