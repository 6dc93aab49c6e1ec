#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/rules.hpp"

// Which ranks' files a pod needs. The pods of a group (LeaderWorkerSet, JobSet, …) share an archive
// and run different ranks, for each of which some frameworks keep a folder
// (Framework::rank_directories). Folders with one parent are the ranks of one layout, which a
// framework chooses by its whole configuration. Only pods that had a place in the group show which
// of them it runs.
//
//   OwnRanks own({"vllm/torch_compile_cache/0123456789/rank_4_0"});
//   own.wants("vllm", rules, "torch_compile_cache/0123456789/rank_5_0/model");   // false
//   own.wants("vllm", rules, "torch_compile_cache/abcdef0123/rank_5_0/model");   // true: not known
//
// Immutable, safe from any thread.

namespace compilecache::frameworks {

// A rank's folder in an archive, taken apart.
struct RankDirectory {
  std::string_view layout;  // "vllm/torch_compile_cache/0123456789"
  std::string_view rank;    // "rank_4_0"
};
// Nothing: it names no folder below a framework's.
std::optional<RankDirectory> parse_rank_directory(std::string_view path);

class OwnRanks {
 public:
  // The pod's own folders, in as many layouts as are known; others are passed over.
  explicit OwnRanks(const std::vector<std::string>& directories);

  [[nodiscard]] bool empty() const { return by_layout_.empty(); }
  // Whether the file is of no rank, of one of the pod's own, or of a layout of which nothing is
  // known. `path` is below the framework's folder `root`.
  [[nodiscard]] bool wants(std::string_view root, const Rules& rules, std::string_view path) const;

 private:
  std::map<std::string, std::set<std::string, std::less<>>, std::less<>> by_layout_;
};

}  // namespace compilecache::frameworks
