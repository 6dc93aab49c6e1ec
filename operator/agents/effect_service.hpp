#pragma once

#include <optional>
#include <string>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "kube/events.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/pods/pod_ledger.hpp"

// What savers report while their pod runs: what the loaded archive was worth, what became of the
// last save, whose files cannot be read.
//
//   EffectService effects(parts);
//   effects.effect(caller, {.cache = "transformer", .effect = api::Effect::kFull});
//
// Thread-safe; does not block.

namespace compilecache::controller {

class EffectService {
 public:
  struct Parts {
    const ClusterView& view;
    PodLedger& pods;
    CacheStats& stats;
    ArchiveRegistry& registry;
    LoadTraffic& traffic;
    const SweepWishes& wishes;
    Metrics& metrics;
    kube::EventSink& events;
    const Clock& clock;
  };

  explicit EffectService(Parts parts) : parts_(parts) {}

  Status effect(const Caller& caller, const api::EffectReport& report);

 private:
  void count_save(const Caller& caller, const api::EffectReport& report);
  void learn_owner(const Caller& caller, const api::EffectReport& report);
  void note_compiling(const Caller& caller, const api::EffectReport& report);
  void judge(const Caller& caller, const api::EffectReport& report);
  void note_ranks(const Caller& caller, const api::EffectReport& report);
  void tell_effect(const Caller& caller, const api::EffectReport& report,
                   const CacheStats::EffectMove& move);
  [[nodiscard]] double seconds_saved(const Caller& caller, const api::EffectReport& report) const;
  [[nodiscard]] std::optional<double> worth_of(const Caller& caller) const;

  const Parts parts_;
};

}  // namespace compilecache::controller
