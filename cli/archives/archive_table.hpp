#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// A list of archives, for people and for scripts: `kubectl compilecache archives`. Pure.

namespace compilecache::cli {

// "Corrupt", "Suspect", "saved by POD now"; empty: nothing is to be said.
std::string state_of(const api::CompileCacheArchive& archive);

// `wide`: with what else is known of each; of all namespaces with a column
// for them. Ages are counted to `now`.
enum class Namespaces { kOne, kAll };
std::string table_of(const std::vector<api::CompileCacheArchive>& archives, WallTime now, bool wide,
                     Namespaces namespaces = Namespaces::kOne);
nlohmann::json json_of(const std::vector<api::CompileCacheArchive>& archives);

}  // namespace compilecache::cli
