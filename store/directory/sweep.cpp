#include "store/directory/sweep.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "archive/format.hpp"
#include "archive/fs.hpp"
#include "base/hex.hpp"
#include "store/directory/layout.hpp"

namespace compilecache::store {
namespace {

using archive::io_error;
using archive::modification_time;

Result<std::vector<std::string>> names_in(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
  if (!stream) return unexpected(io_error("listing " + directory, errno));
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream.get())) names.emplace_back(entry->d_name);
  if (errno != 0) return unexpected(io_error("listing " + directory, errno));
  std::sort(names.begin(), names.end());
  return names;
}

// Removes the file and counts it.
void remove_file(const std::string& path, uint64_t size, SweepCounts& counts) {
  if (::unlink(path.c_str()) == 0) {
    ++counts.removed;
    counts.freed_bytes += size;
  } else if (errno == ENOENT) {
    ++counts.missing;
  } else {
    counts.failures.push_back("removing " + path + ": " + std::strerror(errno));
  }
}

}  // namespace

Result<std::vector<StoredBlob>> list_blobs(const std::string& store) {
  const std::string directory = blobs_directory(store);
  auto names = names_in(directory);
  if (!names) return unexpected(names.error());
  std::vector<StoredBlob> blobs;
  for (const std::string& name : *names) {
    struct stat info {};
    if (!is_hex(name, 64)) continue;
    if (::lstat((directory + "/" + name).c_str(), &info) != 0) {
      if (errno == ENOENT) continue;
      return unexpected(io_error("looking at " + directory + "/" + name, errno));
    }
    if (!S_ISREG(info.st_mode)) continue;
    blobs.push_back(
        {"sha256:" + name, static_cast<uint64_t>(info.st_size), modification_time(info)});
  }
  return blobs;
}

Result<SweepCounts> remove_incomplete(const std::string& store,
                                      std::chrono::milliseconds older_than, WallTime now) {
  SweepCounts counts;
  for (const std::string& directory : {blobs_directory(store), store, nodes_directory(store)}) {
    auto names = names_in(directory);
    if (!names) return unexpected(names.error());
    for (const std::string& name : *names) {
      struct stat info {};
      const std::string path = directory + "/" + name;
      if (!archive::is_incomplete_name(name) || ::lstat(path.c_str(), &info) != 0) continue;
      // A folder that was moved aside from a blob's place. It is only removed if it is empty.
      if (S_ISDIR(info.st_mode)) (void)::rmdir(path.c_str());
      if (!S_ISREG(info.st_mode) || modification_time(info) > now - older_than) continue;
      remove_file(path, static_cast<uint64_t>(info.st_size), counts);
    }
  }
  return counts;
}

Result<SweepCounts> delete_blobs(const std::string& store,
                                 const std::vector<std::string>& digests) {
  for (const std::string& digest : digests) {
    if (!archive::is_digest(digest)) {
      return fail(ErrorCode::kInvalid, "deleting blobs of " + store + ": \"" +
                                           digest.substr(0, 100) +
                                           "\" is not a digest; nothing was deleted");
    }
  }
  SweepCounts counts;
  for (const std::string& digest : digests) {
    const std::string path = blob_path(store, digest);
    struct stat info {};
    const bool known = ::lstat(path.c_str(), &info) == 0;
    remove_file(path, known ? static_cast<uint64_t>(info.st_size) : 0, counts);
  }
  return counts;
}

}  // namespace compilecache::store
