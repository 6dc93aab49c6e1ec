#include "store/directory/probe.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "archive/fs.hpp"

namespace compilecache::store {
namespace {

// The steps of probe_store, with a file of its own.
class Probe {
 public:
  explicit Probe(const std::string& store)
      : first_(store + "/" + archive::incomplete_name()),
        second_(store + "/" + archive::incomplete_name()) {}
  ~Probe() {
    ::unlink(first_.c_str());
    ::unlink(second_.c_str());
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Stores what it measures in `probe`.
  Status run(const std::string& store, StoreProbe& probe) {
    if (auto made = make(first_); !made) return unexpected(made.error());
    probe.can_link = ::link(first_.c_str(), second_.c_str()) == 0;
    if (probe.can_link) ::unlink(second_.c_str());
    if (auto made = make(second_); !made) return unexpected(made.error());
    if (::rename(first_.c_str(), second_.c_str()) != 0)
      return unexpected(archive::local_error("renaming over a file in " + store, errno));
    struct stat info {};
    if (::lstat(second_.c_str(), &info) != 0)
      return unexpected(archive::local_error("looking at " + second_, errno));
    probe.now = archive::modification_time(info);
    if (auto synced = archive::sync_directory(store); !synced) return unexpected(synced.error());
    if (::unlink(second_.c_str()) != 0)
      return unexpected(archive::local_error("removing " + second_, errno));
    return {};
  }

 private:
  static Status make(const std::string& path) {
    archive::Fd fd(archive::create_file(path));
    if (!fd.valid()) return unexpected(archive::local_error("creating " + path, errno));
    const std::string text = "probe";
    if (auto written = archive::write_all(
            fd.get(), {reinterpret_cast<const uint8_t*>(text.data()), text.size()}, path);
        !written)
      return written;
    if (auto synced = archive::sync_file(fd.get(), path); !synced) return synced;
    if (const int error = fd.close(); error != 0)
      return unexpected(archive::local_error("closing " + path, error));
    return {};
  }

  std::string first_;
  std::string second_;
};

}  // namespace

Result<StoreProbe> probe_store(const std::string& store) {
  const std::string context = "trying store " + store;
  StoreProbe probe;
  if (auto tried = Probe(store).run(store, probe); !tried)
    return unexpected(tried.error().with(context));
  struct statvfs info {};
  if (::statvfs(store.c_str(), &info) != 0)
    return unexpected(archive::local_error("asking for free space", errno).with(context));
  probe.free_bytes = uint64_t{info.f_bavail} * info.f_frsize;
  probe.total_bytes = uint64_t{info.f_blocks} * info.f_frsize;
  probe.free_inodes = info.f_favail;
  return probe;
}

}  // namespace compilecache::store
