#pragma once

#include "api/archive_key.hpp"
#include "operator/agents/caller.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/archives/save_rules.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/cluster/cluster_view.hpp"

// The caller of a save and its archive: put together from the token, the pod and the CompileCache,
// for the rules of saving (operator/archives/save_rules.hpp).
//
//   const SaveContexts contexts(view, crashes, stats);
//   const std::string why_not = refusal(contexts.of(caller, key));
//
// Thread-safe.

namespace compilecache::controller {

// Why this pod's saves are never granted, by the same rules as when it asks for one; "": they may
// be.
std::string may_not_save(const Caller& caller);

class SaveContexts {
 public:
  SaveContexts(const ClusterView& view, const CrashWatch& crashes, const CacheStats& stats)
      : view_(view), crashes_(crashes), stats_(stats) {}

  [[nodiscard]] SaveContext of(const Caller& caller, const api::ArchiveKey& key) const;

 private:
  const ClusterView& view_;
  const CrashWatch& crashes_;
  const CacheStats& stats_;
};

}  // namespace compilecache::controller
