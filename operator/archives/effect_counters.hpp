#pragma once

#include <cstdint>

#include "api/compile_cache.hpp"
#include "api/outcomes.hpp"

namespace compilecache::controller {

// The counter that pods judged so are counted under, in a CompileCache's status and an archive's.
int64_t& counter_of(api::EffectCounters& counters, api::Effect effect);

}  // namespace compilecache::controller
