#pragma once

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Archives that another cluster left in a store which this CompileCache takes over
// (spec.storage.adopt). The sweep Job that finds the store says what is in its index, before it
// writes its own marker there, so that this happens once; what is unknown later is garbage.
//
//   auto archive = adopted_archive(cache, found, clock.wall());   // kInvalid: it cannot be meant
//
// The key is as it was, so the archive is found again where the same GPU, image and so on are. Of
// the bytes nothing is believed: every load checks them. Pure; safe from any thread.

namespace compilecache::controller {

Result<api::CompileCacheArchive> adopted_archive(const api::CompileCache& cache,
                                                 const api::FoundArchive& found, WallTime now);

}  // namespace compilecache::controller
