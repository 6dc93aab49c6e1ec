#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"

// The files of a framework's directory, and those that were loaded into it. All paths are relative
// to the directory.

namespace compilecache::frameworks {

enum class FileType { kRegular, kDirectory, kOther };

struct FileInfo {
  std::string path;
  FileType type = FileType::kRegular;
  uint64_t size = 0;
  WallTime modified{}, changed{}, accessed{};  // mtime, ctime, atime
  int64_t owner = -1;                          // its user; -1: not known
};
// Every file and folder, in any order.
using Scan = std::vector<FileInfo>;

struct PathHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using PathSet = std::unordered_set<std::string, PathHash, std::equal_to<>>;

// Loaded files carry this access time until somebody reads them.
inline constexpr WallTime kUnreadTime{std::chrono::seconds(1)};

struct LoadedFiles {
  PathSet files;
  WallTime at{};              // when the last of them was there
  bool reads_visible = true;  // whether the file system notes reads (noatime does not)
};

}  // namespace compilecache::frameworks
