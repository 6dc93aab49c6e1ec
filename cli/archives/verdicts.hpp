#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "base/error.hpp"

// The findings about archives from reading them. Pure.

namespace compilecache::cli {

struct Verdict {
  std::string cache, archive, digest;
  bool whole = false;
  std::string error;  // why not
};

// What `compilecache-agent verify --json` has printed about these archives, among other lines. An
// archive of which it says nothing is not whole. kInvalid: there is no such answer in it.
Result<std::vector<Verdict>> read_verdicts(const std::string& log,
                                           const std::vector<api::CompileCacheArchive>& archives);

std::string text_of(const Verdict& verdict);
nlohmann::json json_of(const std::vector<Verdict>& verdicts);

}  // namespace compilecache::cli
