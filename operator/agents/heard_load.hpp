#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "kube/events.hpp"
#include "operator/agents/caller.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"

// A loader's report of its load: parsed and bounded once, then passed to everything that counts,
// watches or reports it.
//
//   const HeardLoad heard = hear_load(view, caller, report, clock.wall());      // pure
//   for (const LoadSink& sink : load_sinks(view, stats, ...)) sink(caller, heard);
//
// Thread-safe; sinks do not block.

namespace compilecache::controller {

struct HeardLoad {
  LoadSeen seen;         // as the status has it
  std::string manifest;  // that it runs on; empty: it starts cold
  // As it said, also where nothing was loaded.
  std::string archive, message, outcome, source;
  int64_t bytes = 0;

  [[nodiscard]] bool warm() const { return api::is_warm(seen.load); }
};

HeardLoad hear_load(const ClusterView& view, const Caller& caller, const api::LoadedReport& report,
                    WallTime now);

using LoadSink = std::function<void(const Caller& caller, const HeardLoad& heard)>;

// The status's counters, what is watched for crashes, metrics, the archive's use, Events and the
// log, in that order.
std::vector<LoadSink> load_sinks(const ClusterView& view, CacheStats& stats, CrashWatch& crashes,
                                 Metrics& metrics, ArchiveRegistry& registry,
                                 kube::EventSink& events);

}  // namespace compilecache::controller
