#include "archive/store.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "archive/beneath.hpp"
#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "archive/index.hpp"
#include "base/checked_json.hpp"
#include "base/strings.hpp"

namespace compilecache::archive {
namespace {

constexpr const char* kMarkerName = "compilecache.json";
constexpr const char* kLayoutName = "oci-layout";
constexpr const char* kLayout = R"({"imageLayoutVersion":"1.0.0"})";
constexpr uint64_t kMaxSmallFile = 64U << 10;
constexpr mode_t kOpenToAll = 0777;

// Not knowing is an error: what is taken for missing is made anew.
Result<bool> exists(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT) return false;
  return unexpected(local_error("looking for " + path, errno));
}

// True: it was not there before.
Result<bool> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kOpenToAll) != 0) {
    if (errno == EEXIST) return false;
    return unexpected(local_error("creating directory " + path, errno));
  }
  const std::string parent = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  if (auto synced = sync_directory(parent); !synced) return unexpected(synced.error());
  return true;
}

// Through a link lies what is not ours.
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

// A directory of the store: 0777, made durably if it is not there; if it is, its mode must do or be
// ours to change.
Status make_open_directory(const std::string& path) {
  if (auto made = make_directory(path); !made) return unexpected(made.error());
  auto directory = open_directory_itself(path);
  if (!directory) return unexpected(directory.error());
  return make_open(*directory, path);
}

// Whether nothing is in it but what a preparation that died has left.
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

// The store and the parents of it that are missing. Existing parents are somebody else's, and so is
// a folder with something in it that does not say that it is a store.
Status make_store_directory(const std::string& store, bool is_store) {
  Fd above = open_folder("/", O_PATH);
  for (size_t slash = store.find('/', 1); slash != std::string::npos;
       slash = store.find('/', slash + 1)) {
    const std::string parent = store.substr(0, slash);
    auto made = make_directory(parent);
    if (!made) return unexpected(made.error());
    // A link of the volume could lead anywhere on it.
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
                                            " holds files that are not ours; choose another "
                                            "spec.storage.subPath, or name for the CompileCache");
    }
  }
  return make_open(*directory, store);
}

std::string marker_text(const StoreOwner& owner) {
  const nlohmann::json json = {{"formatVersion", kFormatVersion},
                               {"cluster", owner.cluster},
                               {"namespace", owner.ns},
                               {"compileCache", owner.compile_cache}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status write_if_different(const std::string& directory, const std::string& name,
                          const std::string& content) {
  const auto now = read_small_file(directory + "/" + name, kMaxSmallFile);
  if (now && *now == content) return {};
  return replace_file(directory, name, content);
}

// What is known of the owner before anything is touched: none, one, or something we cannot read.
struct Claim {
  bool any = false;
  std::optional<StoreOwner> owner;
};

Result<Claim> current_claim(const std::string& store) {
  auto owner = read_store_owner(store);
  if (owner) return Claim{true, *owner};
  if (owner.error().code == ErrorCode::kCorrupt) return Claim{true, std::nullopt};
  if (owner.error().code != ErrorCode::kNotFound) return unexpected(owner.error());
  // An image layout without our marker is another program's.
  for (const char* name : {kLayoutName, "blobs"}) {
    auto there = exists(store + "/" + name);
    if (!there) return unexpected(there.error());
    if (*there) return Claim{true, std::nullopt};
  }
  return Claim{};
}

std::string name_of(const std::optional<StoreOwner>& owner) {
  if (!owner) return "somebody unknown";
  return "CompileCache " + owner->compile_cache + " of namespace " + owner->ns + " in cluster " +
         owner->cluster;
}

// Node names are DNS subdomains.
bool is_node_name(const std::string& node) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !node.empty() && node.size() <= 253 && node.front() != '.' &&
         std::all_of(node.begin(), node.end(), allowed);
}

std::string nodes_directory(const std::string& store) { return store + "/nodes"; }

// The steps of probe_store on a file of its own.
class Probe {
 public:
  explicit Probe(const std::string& store)
      : first_(store + "/" + incomplete_name()), second_(store + "/" + incomplete_name()) {}
  ~Probe() {
    ::unlink(first_.c_str());
    ::unlink(second_.c_str());
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Into `probe`.
  Status run(const std::string& store, StoreProbe& probe) {
    if (auto made = make(first_); !made) return unexpected(made.error());
    probe.can_link = ::link(first_.c_str(), second_.c_str()) == 0;
    if (probe.can_link) ::unlink(second_.c_str());
    if (auto made = make(second_); !made) return unexpected(made.error());
    if (::rename(first_.c_str(), second_.c_str()) != 0)
      return unexpected(local_error("renaming over a file in " + store, errno));
    struct stat info {};
    if (::lstat(second_.c_str(), &info) != 0)
      return unexpected(local_error("looking at " + second_, errno));
    probe.now = modification_time(info);
    if (auto synced = sync_directory(store); !synced) return unexpected(synced.error());
    if (::unlink(second_.c_str()) != 0)
      return unexpected(local_error("removing " + second_, errno));
    return {};
  }

 private:
  static Status make(const std::string& path) {
    Fd fd(create_file(path));
    if (!fd.valid()) return unexpected(local_error("creating " + path, errno));
    const std::string text = "probe";
    if (auto written =
            write_all(fd.get(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, path);
        !written)
      return written;
    if (auto synced = sync_file(fd.get(), path); !synced) return synced;
    if (const int error = fd.close(); error != 0)
      return unexpected(local_error("closing " + path, error));
    return {};
  }

  std::string first_;
  std::string second_;
};

}  // namespace

Result<PreparedStore> prepare_store(const std::string& store, const StoreOwner& owner, bool adopt) {
  if (store.empty() || store.front() != '/')
    return fail(ErrorCode::kInvalid, "preparing a store: \"" + store + "\" is not absolute");
  auto claim = current_claim(store);
  if (!claim) return unexpected(claim.error());
  const bool foreign = claim->any && claim->owner != owner;
  if (foreign && !adopt) {
    return fail(ErrorCode::kConflict,
                "preparing store " + store + ": it belongs to " + name_of(claim->owner) +
                    "; use another claim or subPath, or set spec.storage.adopt to take it over");
  }
  PreparedStore prepared;
  prepared.created = !claim->any;
  if (foreign) prepared.adopted_from = claim->owner.value_or(StoreOwner{});

  if (auto made = make_store_directory(store, claim->any); !made) return unexpected(made.error());
  // The marker first: whoever comes while the rest is missing knows whose it is.
  if (auto written = write_if_different(store, kMarkerName, marker_text(owner)); !written)
    return unexpected(written.error());
  for (const std::string& directory :
       {store + "/blobs", store + "/blobs/sha256", nodes_directory(store)}) {
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

Result<StoreProbe> probe_store(const std::string& store) {
  const std::string context = "trying store " + store;
  StoreProbe probe;
  if (auto tried = Probe(store).run(store, probe); !tried)
    return unexpected(tried.error().with(context));
  struct statvfs info {};
  if (::statvfs(store.c_str(), &info) != 0)
    return unexpected(local_error("asking for free space", errno).with(context));
  probe.free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  probe.total_bytes = uint64_t{info.f_blocks} * info.f_frsize;
  probe.free_inodes = info.f_favail;
  return probe;
}

Status note_node_product(const std::string& store, const std::string& node,
                         const std::string& product) {
  if (!is_node_name(node) || product.empty() || product.find('\n') != std::string::npos)
    return fail(ErrorCode::kInvalid,
                "noting product \"" + product + "\" of node \"" + node + "\": not usable as names");
  return write_if_different(nodes_directory(store), node, product + "\n");
}

Result<std::string> read_node_product(const std::string& store, const std::string& node) {
  if (!is_node_name(node)) return fail(ErrorCode::kInvalid, "not a node name: \"" + node + "\"");
  auto text = read_small_file(nodes_directory(store) + "/" + node, kMaxSmallFile);
  if (!text) return unexpected(text.error().with("reading the GPU product of node " + node));
  const std::string product(trim(*text));
  if (product.empty())
    return fail(ErrorCode::kNotFound, "the note of node " + node + " in " + store + " is empty");
  return product;
}

}  // namespace compilecache::archive
