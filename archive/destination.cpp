#include "archive/destination.hpp"

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
constexpr size_t kMaxOpenDirectories = 200;
constexpr int kOpenDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// An app of any user must be able to write there, whatever our umask is.
Status open_to_all(const OpenDirectory& directory) {
  struct stat info {};
  if (::fstat(directory.fd.get(), &info) != 0)
    return unexpected(local_error("looking at " + directory.path, errno));
  if ((info.st_mode & kOpenToAll) == kOpenToAll) return {};
  if (::fchmod(directory.fd.get(), (info.st_mode & 07777) | kOpenToAll) == 0) return {};
  return unexpected(local_error(
      "making " + directory.path + " writable for every user (make it 0777, or let its owner load)",
      errno));
}

// Removes a file or a whole directory; nothing but our own files is in there.
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

Status Destination::open_root(const RootMapping& mapping) {
  const auto same = [&](const Root& root) {
    return root.prefix == (mapping.root.empty() ? "" : mapping.root + "/");
  };
  if (mapping.root.find('/') != std::string::npos || mapping.directory.empty() ||
      std::any_of(roots_.begin(), roots_.end(), same)) {
    return fail(ErrorCode::kInvalid, "mapping \"" + mapping.root + "\" to \"" + mapping.directory +
                                         "\": want one directory for each top-level name");
  }
  bool created = true;
  if (::mkdir(mapping.directory.c_str(), kOpenToAll) != 0) {
    if (errno != EEXIST) return unexpected(local_error("creating " + mapping.directory, errno));
    created = false;
  } else {
    created_roots_.push_back(mapping.directory);
  }
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  Fd fd(uninterrupted([&] { return ::open(mapping.directory.c_str(), kFlags); }));
  if (!fd.valid()) return unexpected(local_error("opening " + mapping.directory, errno));
  auto root = std::make_shared<OpenDirectory>();
  root->fd = std::move(fd);
  root->path = mapping.directory;
  root->created = created;
  if (auto opened = open_to_all(*root); !opened) return opened;
  roots_.push_back({mapping.root.empty() ? "" : mapping.root + "/", std::move(root)});
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
  const std::string_view relative = std::string_view(archive_path).substr(root->prefix.size());
  const size_t slash = relative.rfind('/');
  const std::string_view folder = slash == std::string_view::npos ? "" : relative.substr(0, slash);
  auto opened = directory(*root, folder);
  if (!opened) return unexpected(opened.error());
  const size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  return Place{std::move(*opened), std::string(relative.substr(name))};
}

Result<std::shared_ptr<OpenDirectory>> Destination::directory(const Root& root,
                                                              std::string_view relative) {
  if (relative.empty()) return root.directory;
  const std::string path = root.directory->path + "/" + std::string(relative);
  if (const auto known = open_.find(path); known != open_.end()) return known->second;
  const size_t slash = relative.rfind('/');
  auto parent = directory(root, slash == std::string_view::npos ? "" : relative.substr(0, slash));
  if (!parent) return unexpected(parent.error());
  const size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  auto opened = enter(*parent, std::string(relative.substr(name)));
  if (!opened) return unexpected(opened.error());
  // Files that are being created keep theirs; the others are opened again when needed.
  if (open_.size() >= kMaxOpenDirectories) open_.clear();
  open_[path] = *opened;
  return *opened;
}

Result<std::shared_ptr<OpenDirectory>> Destination::enter(
    const std::shared_ptr<OpenDirectory>& parent, const std::string& name) {
  auto directory = std::make_shared<OpenDirectory>();
  directory->path = parent->path + "/" + name;
  const bool made = ::mkdirat(parent->fd.get(), name.c_str(), kOpenToAll) == 0;
  if (!made && errno != EEXIST)
    return unexpected(local_error("creating directory " + directory->path, errno));
  if (made) {
    created_paths_[directory->path] = true;
    if (!parent->created) remember(parent, name);
  }
  directory->created = created_paths_.contains(directory->path);
  directory->fd = Fd(
      uninterrupted([&] { return ::openat(parent->fd.get(), name.c_str(), kOpenDirectoryFlags); }));
  if (!directory->fd.valid())
    return unexpected(local_error("opening directory " + directory->path, errno));
  if (auto opened = open_to_all(*directory); !opened) return unexpected(opened.error());
  return directory;
}

Result<Fd> Destination::create(const Place& place) {
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(uninterrupted(
      [&] { return ::openat(place.directory->fd.get(), place.name.c_str(), kFlags, 0666); }));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EEXIST) {
      return fail(ErrorCode::kConflict,
                  "creating " + place.path() + ": it exists; load into an empty directory");
    }
    return unexpected(local_error("creating " + place.path(), error));
  }
  if (!place.directory->created) remember(place.directory, place.name);
  return fd;
}

void Destination::remember(const std::shared_ptr<OpenDirectory>& parent, const std::string& name) {
  const std::lock_guard lock(mutex_);
  created_.push_back({parent, name});
}

Status Destination::remove_created() {
  const std::lock_guard lock(mutex_);
  open_.clear();
  std::string left;
  for (auto it = created_.rbegin(); it != created_.rend(); ++it) {
    if (!remove_tree(it->parent->fd.get(), it->name.c_str()))
      left = it->parent->path + "/" + it->name;
  }
  for (auto it = created_roots_.rbegin(); it != created_roots_.rend(); ++it) {
    if (!remove_tree(AT_FDCWD, it->c_str())) left = *it;
  }
  created_.clear();
  created_roots_.clear();
  if (left.empty()) return {};
  return fail(ErrorCode::kIo, "removing what was created: " + left +
                                  " is still there; empty it before the app starts");
}

}  // namespace compilecache::archive
