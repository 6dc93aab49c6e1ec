#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Decides which archives of one CompileCache are stale and may be deleted.
//
//   auto plan = plan_collection(archives, spec.retention, in_use, clock.wall());
//   for (const StaleArchive& stale : plan) ...   // delete the object; a sweep takes its blobs
//
// Rules, in this order:
//   incompleteTimeout  its first save was not committed, nobody holds its lock, and it is that old
//   unusedFor     nobody loaded or saved it for that long
//   keepPerGPU    of archives of one GPU product that differ by image or driver alone, and so
//   follow
//                 each other, only that many stay, the last saved ones; of all of one product at
//                 most twenty times as many, the last used ones
//   maxTotalSize  the least recently used go until the rest fits
// An archive in `in_use`, or one with a save under way, is never stale. The newest of a product
// stays as long as any other of that product, since the next pod most likely wants the newest.
//
// Pure: no clock, no I/O. Thread-safe.

namespace compilecache::controller {

enum class StaleReason { kUncommitted, kUnused, kTooManyOfProduct, kOverTotalSize };
// "incompleteTimeout", "unusedFor", "keepPerGPU", "maxTotalSize": the field of spec.retention that
// asked for it.
const char* to_string(StaleReason reason);

struct StaleArchive {
  std::string name;
  std::string uid;
  StaleReason reason = StaleReason::kUnused;
  int64_t bytes = 0;  // compressed, of its head
};

// `in_use`: names of archives that a running pod loaded or is saving. All archives belong to one
// CompileCache.
std::vector<StaleArchive> plan_collection(const std::vector<api::CompileCacheArchive>& archives,
                                          const api::CompileCacheSpec::Retention& retention,
                                          const std::set<std::string>& in_use, WallTime now);

// When the archive was created, loaded or saved, whichever is latest.
WallTime last_used(const api::CompileCacheArchive& archive);

}  // namespace compilecache::controller
