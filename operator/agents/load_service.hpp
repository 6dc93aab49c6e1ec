#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/fresh_archives.hpp"
#include "operator/agents/group_answers.hpp"
#include "operator/agents/heard_load.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/settings/settings.hpp"

// Loads: which archive a pod gets before it starts, and the result.
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
    PodLedger& pods;
    LoadTraffic& traffic;
    const CacheStats& stats;
    const SaveContexts& contexts;
    const SweepWishes& wishes;
    const Settings& settings;
    const Clock& clock;
    const FreshArchives* fresh = nullptr;  // nullptr: the view is up to date
  };

  LoadService(Parts parts, std::vector<LoadSink> sinks);

  Result<api::LoadAnswer> load(const Caller& caller, const api::LoadRequest& request);
  Status loaded(const Caller& caller, const api::LoadedReport& report);

 private:
  [[nodiscard]] bool compiles_on(const std::string& ns, const std::string& name,
                                 const std::string& uid) const;
  [[nodiscard]] bool goes_with_first(const Caller& caller, const std::string& archive) const;
  [[nodiscard]] std::chrono::milliseconds tenure_of(const Caller& caller,
                                                    const LoadSituation& situation) const;
  // Gives all members of one start of the pod's group the same.
  void keep_to_group(const Caller& caller, LoadSituation& situation, api::LoadAnswer& answer);
  void judge_first(const Caller& caller, const api::LoadAnswer& decided,
                   LoadSituation& situation) const;

  const Parts parts_;
  const std::vector<LoadSink> sinks_;
  GroupAnswers groups_;
};

}  // namespace compilecache::controller
