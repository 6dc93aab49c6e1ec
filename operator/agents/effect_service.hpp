#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

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

// Reports of savers while their pod runs: the effect of the loaded archive, the result of the
// last save, whose files cannot be read.
//
//   EffectService effects(parts);
//   effects.effect(caller, {.cache = "transformer", .effect = api::Effect::kFull});
//
// Thread-safe; blocks on the API server where a pod tells of the user of its files.

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
    // See AgentApiHooks::registry_room.
    std::function<void(bool full)> registry_room = {};
    // Whether the pod's containers can have left files of that user (file_owner.hpp), as the API
    // server has the pod.
    std::function<Result<bool>(const PodView& pod, int64_t user)> can_own_files;
  };

  explicit EffectService(Parts parts) : parts_(std::move(parts)) {}

  Status effect(const Caller& caller, const api::EffectReport& report);

 private:
  void count_save(const Caller& caller, const api::EffectReport& report);
  void learn_owner(const Caller& caller, const api::EffectReport& report);
  [[nodiscard]] bool is_believable(const Caller& caller, const std::string& image,
                                   int64_t user) const;
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
