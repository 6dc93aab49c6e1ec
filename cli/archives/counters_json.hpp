#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/compile_cache_archive.hpp"

// Counters for scripts, the same in every verb: {"exact": 3, "compatible": 0, …}. Pure.

namespace compilecache::cli {

nlohmann::json json_of(const api::LoadCounters& loads);
nlohmann::json json_of(const api::EffectCounters& effect);

}  // namespace compilecache::cli
