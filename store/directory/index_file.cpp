#include "store/directory/index_file.hpp"

#include <sys/stat.h>

#include <cerrno>

#include "archive/fs.hpp"

namespace compilecache::store {
namespace {

constexpr const char* kIndexName = "index.json";

// Returns the entries that an update starts from. A missing or damaged index is replaced; one that
// cannot be read now is not, as others' entries would be lost with it.
Result<std::vector<IndexEntry>> entries_to_update(const std::string& store) {
  const std::string path = store + "/" + kIndexName;
  auto text = archive::read_small_file(path, kMaxIndexBytes);
  if (text) return parse_index(*text, path).entries;
  const ErrorCode code = text.error().code;
  // "Not found" may also mean that another client has just replaced the file (ESTALE).
  struct stat info {};
  const bool there = ::lstat(path.c_str(), &info) == 0 || errno != ENOENT;
  if (code == ErrorCode::kIo || code == ErrorCode::kForbidden ||
      (code == ErrorCode::kNotFound && there))
    return unexpected(text.error().with("updating the index of store " + store));
  return std::vector<IndexEntry>{};
}

}  // namespace

Index read_index(const std::string& store) {
  const std::string path = store + "/" + kIndexName;
  auto text = archive::read_small_file(path, kMaxIndexBytes);
  if (text) return parse_index(*text, path);
  Index index;
  index.problems.push_back(text.error().message);
  return index;
}

Status write_index(const std::string& store, const std::vector<IndexEntry>& entries) {
  auto written = archive::replace_file(store, kIndexName, index_text(entries));
  if (!written) return unexpected(written.error().with("writing the index of store " + store));
  return {};
}

Status update_index(const std::string& store, const IndexEntry& entry) {
  if (auto usable = check_entry(entry, store); !usable) return usable;
  auto entries = entries_to_update(store);
  if (!entries) return unexpected(entries.error());
  if (!put_entry(*entries, entry)) return {};
  return write_index(store, *entries);
}

}  // namespace compilecache::store
