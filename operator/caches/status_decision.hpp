#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"
#include "operator/breaker/breaker_keeper.hpp"
#include "operator/caches/heard_pods.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"

// The status of a CompileCache from all that was seen of it, and what else is to be done.
//
//   StatusInput seen{.cache = cache, .counted = cache.status, .storage = verdict};
//   seen.archives = view.archives_of(ns, name);
//   const StatusDecision decided = decide_status(seen, settings.breaker);
//
// Pure; safe from any thread. The same input gives the same status.

namespace compilecache::controller {

struct StatusInput {
  const api::CompileCache& cache;   // with the status as it was written last
  api::CompileCacheStatus counted;  // that status with what pods were seen to do (CacheStats::fill)
  std::vector<std::shared_ptr<const api::CompileCacheArchive>> archives = {};
  size_t active_pods = 0;
  StorageVerdict storage = {};
  std::string unreachable = {};                         // why nobody can reach the operator
  std::string copy_trouble = {};                        // of StorageFacts
  std::optional<OwnRegistryTrouble> own_registry = {};  // likewise
  BreakerSight breaker = {};
  Silence silence = {};
  std::vector<std::string> known_frameworks = {};  // by the settings
  WallTime now{};
};

struct StatusDecision {
  api::CompileCacheStatus status;
  BreakerVerdict breaker;
  // Pods are not admitted on account of the user that our containers run as: no owner of files is
  // given to them any more (CacheStats::refuse_owners). The status says so already.
  bool refuse_owners = false;
  Duration again{0};  // when time alone changes the answer; 0: when something changes
};

StatusDecision decide_status(const StatusInput& seen, const Settings::Breaker& rules);

}  // namespace compilecache::controller
