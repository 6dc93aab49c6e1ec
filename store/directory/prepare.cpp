#include "store/directory/prepare.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "archive/beneath.hpp"
#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "base/checked_json.hpp"
#include "store/directory/index_file.hpp"
#include "store/directory/layout.hpp"
#include "store/directory/small_file.hpp"

namespace compilecache::store {
namespace {

using archive::Fd;
using archive::is_incomplete_name;
using archive::local_error;
using archive::open_folder;
using archive::read_small_file;
using archive::step_into;
using archive::sync_directory;
using archive::uninterrupted;

constexpr const char* kMarkerName = "compilecache.json";
constexpr const char* kLayoutName = "oci-layout";
constexpr const char* kLayout = R"({"imageLayoutVersion":"1.0.0"})";
constexpr mode_t kOpenToAll = 0777;

// Not knowing is an error, as files that seem to be missing would be recreated.
Result<bool> exists(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return unexpected(local_error("looking for " + path, errno));
}

// True: it did not exist before.
Result<bool> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kOpenToAll) != 0) {
    if (errno == EEXIST) return false;
    return unexpected(local_error("creating directory " + path, errno));
  }
  const std::string parent = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  if (auto synced = sync_directory(parent); !synced) return unexpected(synced.error());
  return true;
}

// Refuses a link, behind which files of others may lie.
Result<Fd> opened_itself(Fd fd, const std::string& path) {
  if (fd.valid()) return fd;
  if (errno == ENOTDIR || errno == ELOOP)
    return fail(ErrorCode::kConflict, path + " is a link or no directory; move it away");
  return unexpected(local_error("opening directory " + path, errno));
}

Result<Fd> open_directory_itself(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  return opened_itself(Fd(uninterrupted([&] { return ::open(path.c_str(), kFlags); })), path);
}

Status make_open(const Fd& directory, const std::string& path) {
  struct stat info {};
  if (::fstat(directory.get(), &info) != 0)
    return unexpected(local_error("looking at " + path, errno));
  if ((info.st_mode & (kOpenToAll | S_ISVTX)) == kOpenToAll) return {};
  if (::fchmod(directory.get(), ((info.st_mode & 07777) | kOpenToAll) & ~unsigned{S_ISVTX}) != 0) {
    return unexpected(local_error("making " + path +
                                      " writable for pods of every user (chmod 0777 it as its "
                                      "owner, or let the Job run as root)",
                                  errno));
  }
  return {};
}

// Makes a directory of the store durably, with mode 0777. If it exists, its mode must suffice, or
// we must be allowed to change it.
Status make_open_directory(const std::string& path) {
  if (auto made = make_directory(path); !made) return unexpected(made.error());
  auto directory = open_directory_itself(path);
  if (!directory) return unexpected(directory.error());
  return make_open(*directory, path);
}

// Whether the directory is empty, apart from what a preparation that died left behind.
Result<bool> is_empty(const Fd& directory, const std::string& path) {
  const int copy = ::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0);
  DIR* list = copy < 0 ? nullptr : ::fdopendir(copy);
  if (list == nullptr) {
    const int problem = errno;
    if (copy >= 0) ::close(copy);
    return unexpected(local_error("listing " + path, problem));
  }
  bool empty = true;
  errno = 0;
  while (const dirent* entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !is_incomplete_name(name)) empty = false;
  }
  const int problem = errno;
  ::closedir(list);
  if (problem != 0) return unexpected(local_error("listing " + path, problem));
  return empty;
}

// Makes the store's directory and its missing parents. Existing parents belong to others, and so
// does a folder that has files but no marker of a store.
Status make_store_directory(const std::string& store, bool is_store) {
  Fd above = open_folder("/", O_PATH);
  for (size_t slash = store.find('/', 1); slash != std::string::npos;
       slash = store.find('/', slash + 1)) {
    const std::string parent = store.substr(0, slash);
    auto made = make_directory(parent);
    if (!made) return unexpected(made.error());
    // A link on the volume could lead anywhere on it.
    auto itself =
        opened_itself(step_into(above.get(), parent.substr(parent.rfind('/') + 1)), parent);
    if (!itself) return unexpected(itself.error());
    above = std::move(*itself);
    if (!*made) continue;
    if (auto opened = make_open_directory(parent); !opened) return opened;
  }
  if (auto made = make_directory(store); !made) return unexpected(made.error());
  auto directory = open_directory_itself(store);
  if (!directory) return unexpected(directory.error());
  if (!is_store) {
    auto empty = is_empty(*directory, store);
    if (!empty) return unexpected(empty.error());
    if (!*empty) {
      return fail(ErrorCode::kConflict, store +
                                            " holds files of another owner; choose another "
                                            "spec.storage.subPath, or name for the CompileCache");
    }
  }
  return make_open(*directory, store);
}

std::string marker_text(const StoreOwner& owner) {
  const nlohmann::json json = {{"formatVersion", archive::kFormatVersion},
                               {"cluster", owner.cluster},
                               {"namespace", owner.ns},
                               {"compileCache", owner.compile_cache}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// The owner before anything is changed: none, one, or a marker that we cannot read.
struct CurrentOwner {
  bool any = false;
  std::optional<StoreOwner> owner;
};

Result<CurrentOwner> current_owner(const std::string& store) {
  auto owner = read_store_owner(store);
  if (owner) return CurrentOwner{true, *owner};
  if (owner.error().code == ErrorCode::kCorrupt) return CurrentOwner{true, std::nullopt};
  if (owner.error().code != ErrorCode::kNotFound) return unexpected(owner.error());
  // An image layout without our marker is another program's.
  for (const char* name : {kLayoutName, "blobs"}) {
    auto there = exists(store + "/" + name);
    if (!there) return unexpected(there.error());
    if (*there) return CurrentOwner{true, std::nullopt};
  }
  return CurrentOwner{};
}

std::string name_of(const std::optional<StoreOwner>& owner) {
  if (!owner) return "somebody unknown";
  return "CompileCache " + owner->compile_cache + " of namespace " + owner->ns + " in cluster " +
         owner->cluster;
}

}  // namespace

Result<PreparedStore> prepare_store(const std::string& store, const StoreOwner& owner, bool adopt) {
  if (store.empty() || store.front() != '/')
    return fail(ErrorCode::kInvalid, "preparing a store: \"" + store + "\" is not absolute");
  auto current = current_owner(store);
  if (!current) return unexpected(current.error());
  const bool foreign = current->any && current->owner != owner;
  if (foreign && !adopt) {
    return fail(ErrorCode::kConflict,
                "preparing store " + store + ": it belongs to " + name_of(current->owner) +
                    "; use another claim or subPath, or set spec.storage.adopt to take it over");
  }
  PreparedStore prepared;
  prepared.created = !current->any;
  if (foreign) prepared.adopted_from = current->owner.value_or(StoreOwner{});

  if (auto made = make_store_directory(store, current->any); !made) return unexpected(made.error());
  // The marker is written first, so that the owner is known even while the rest is missing.
  if (auto written = write_if_different(store, kMarkerName, marker_text(owner)); !written)
    return unexpected(written.error());
  for (const std::string& directory :
       {store + "/blobs", blobs_directory(store), nodes_directory(store)}) {
    if (auto made = make_open_directory(directory); !made) return unexpected(made.error());
  }
  if (auto written = write_if_different(store, kLayoutName, kLayout); !written)
    return unexpected(written.error());
  auto indexed = exists(store + "/index.json");
  if (!indexed) return unexpected(indexed.error());
  if (!*indexed) {
    if (auto written = write_index(store, {}); !written) return unexpected(written.error());
  }
  return prepared;
}

Result<StoreOwner> read_store_owner(const std::string& store) {
  const std::string path = store + "/" + kMarkerName;
  auto text = read_small_file(path, kMaxSmallFile);
  if (!text) {
    Error error = text.error().with("reading whose store " + store + " is");
    if (error.code == ErrorCode::kTooLarge || error.code == ErrorCode::kInvalid)
      error.code = ErrorCode::kCorrupt;
    return unexpected(error);
  }
  auto json = parse_json(*text, path);
  if (!json) return unexpected(json.error());
  const auto cluster = string_member(*json, "cluster");
  const auto ns = string_member(*json, "namespace");
  const auto compile_cache = string_member(*json, "compileCache");
  if (!cluster || !ns || !compile_cache)
    return fail(ErrorCode::kCorrupt, path + " does not name an owner");
  return StoreOwner{*cluster, *ns, *compile_cache};
}

}  // namespace compilecache::store
