#pragma once

#include "api/agent_api.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Adopts archives that another cluster left in a store which this CompileCache takes over
// (spec.storage.adopt). The sweep Job that finds the store reports what is in its index before it
// writes its own marker there, so this happens once; archives that are still unknown later are
// garbage.
//
//   auto archive = adopted_archive(cache, store, found, clock.wall());  // kInvalid: no archive
//
// The key stays as it was, so the archive is found for pods with the same GPU, image and so on.
// Nothing about the bytes is trusted: every load checks them. Pure; safe from any thread.

namespace compilecache::controller {

// Likewise of archives that a sweep Job has copied from another store (spec.storage.copyFrom).
// `store` is the CompileCache's, where they are.
Result<api::CompileCacheArchive> adopted_archive(const api::CompileCache& cache,
                                                 const std::optional<api::StoreRef>& store,
                                                 const api::FoundArchive& found, WallTime now);

}  // namespace compilecache::controller
