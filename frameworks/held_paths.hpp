#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace compilecache::frameworks {

// The set of files that an archive holds, in eight bytes each: a saver keeps it for hours, and
// there may be many.
//
//   HeldPaths held({"fxgraph/ab/fabc/entry"});
//   held.contains("fxgraph/ab/fabc/entry");   // true
//   held.has_directory("fxgraph/ab");         // true
//
// It keeps hashes. One path in a million million is taken for another; what is not saved because of
// that the next pod compiles again. Safe to read from several threads.
class HeldPaths {
 public:
  HeldPaths() = default;
  explicit HeldPaths(const std::vector<std::string_view>& paths) { add(paths); }

  // Adding many at once is cheaper than one by one.
  void add(const std::vector<std::string_view>& paths);

  [[nodiscard]] bool contains(std::string_view path) const;
  // Whether any of the files is in it or below it.
  [[nodiscard]] bool has_directory(std::string_view path) const;

 private:
  std::vector<uint64_t> files_, directories_;  // sorted
};

}  // namespace compilecache::frameworks
