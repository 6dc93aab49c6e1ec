#pragma once

#include "base/error.hpp"
#include "kube/client.hpp"
#include "operator/caches/cache_stats.hpp"

// Reads the counters that the previous leader has left in the statuses.
//
//   if (auto read = seed_counters(client, stats); !read) return read;
//
// They are read from the API server: a reflector's store may not have seen the last write yet, and
// what was counted in it would be lost. Blocks. A CompileCache that cannot be read is left out; its
// status keeps its counters until it can.

namespace compilecache::controller {

Status seed_counters(const kube::Client& client, CacheStats& stats);

}  // namespace compilecache::controller
