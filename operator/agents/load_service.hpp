#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/heard_load.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/settings/settings.hpp"

// Loads: which archive a pod gets before it starts, and what became of that.
//
//   LoadService loads(parts, load_sinks(...));
//   Result<api::LoadAnswer> answer = loads.load(caller, {.cache = "transformer"});
//
// Thread-safe; loaded() blocks on the API server where an archive turns out to be corrupt.

namespace compilecache::controller {

class LoadService {
 public:
  struct Parts {
    const ClusterView& view;
    LoadTraffic& traffic;
    const CacheStats& stats;
    const SaveContexts& contexts;
    const SweepWishes& wishes;
    const Settings& settings;
    const Clock& clock;
  };

  LoadService(Parts parts, std::vector<LoadSink> sinks);

  Result<api::LoadAnswer> load(const Caller& caller, const api::LoadRequest& request);
  Status loaded(const Caller& caller, const api::LoadedReport& report);

 private:
  [[nodiscard]] LoadSituation situation_of(const Caller& caller,
                                           const api::LoadRequest& request) const;
  [[nodiscard]] bool compiles_on(const std::string& ns, const std::string& name,
                                 const std::string& uid) const;
  [[nodiscard]] static std::vector<std::string> ranks_of(const Caller& caller,
                                                         const LoadSituation& situation,
                                                         const std::string& archive);
  [[nodiscard]] bool goes_with_first(const Caller& caller, const std::string& archive) const;
  [[nodiscard]] std::chrono::milliseconds tenure_of(const Caller& caller,
                                                    const LoadSituation& situation) const;
  void judge_first(const Caller& caller, const api::LoadAnswer& decided,
                   LoadSituation& situation) const;

  const Parts parts_;
  const std::vector<LoadSink> sinks_;
};

}  // namespace compilecache::controller
