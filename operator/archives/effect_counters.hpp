#pragma once

#include <cstdint>

#include "api/compile_cache.hpp"
#include "api/outcomes.hpp"

namespace compilecache::controller {

// The counter of that effect, in a CompileCache's status and in an archive's.
int64_t& counter_of(api::EffectCounters& counters, api::Effect effect);

}  // namespace compilecache::controller
