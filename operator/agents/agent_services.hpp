#pragma once

#include <functional>
#include <string>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "kube/events.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/effect_service.hpp"
#include "operator/agents/load_service.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/registry_token_service.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/agents/save_service.hpp"
#include "operator/agents/sweep_service.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/agents/token_auth.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/archives/save_coordinator.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/settings/settings.hpp"

// The services behind the agent API, each given what it works with and no more.
//
//   AgentServices services(parts, settings, hooks, clock);
//   services.take_over();
//   const auto caller = services.callers.identify(token, peer);
//   auto answer = services.loads.load(*caller, request);
//
// Thread-safe; calls block on the API server. All parts, settings and the clock must outlive it.

namespace compilecache::controller {

// Their collaborators, all shared with the rest of the operator.
struct AgentApiParts {
  const ClusterView& view;
  TokenAuth& auth;
  SaveCoordinator& saves;
  CacheLocks& locks;
  SweepGuard& guard;
  ArchiveClient& archives;
  ArchiveRegistry& registry;
  LoadTraffic& traffic;
  CrashWatch& crashes;
  CacheStats& stats;
  PodLedger& pods;
  Metrics& metrics;
  kube::EventSink& events;
  // Of the installation's own registry, where it has one.
  const TokenMinter* minter = nullptr;
  RegistryUsage* usage = nullptr;
  const OwnRepositories* repositories = nullptr;
  // Whether an archive may still be handed out; nullptr: what the view has is up to date.
  const FreshArchives* fresh = nullptr;
};

// Their calls to the rest of the operator.
struct AgentApiHooks {
  std::function<bool()> is_leader;
  // See CallerHooks.
  std::function<void(const PodView& pod)> spoke;
  std::function<Result<PodView>(const std::string& ns, const std::string& name)> fetch_pod;
  std::function<Result<api::DeviceFacts>(const PodView& pod, const std::string& node)> devices = {};
  std::function<bool(const std::string& cache, const std::string& job)> is_sweep_job = {};
  // See EffectService::Parts::can_own_files.
  std::function<Result<bool>(const PodView& pod, int64_t user)> can_own_files = {};
  // A sweep of that CompileCache is wanted soon: an archive became suspect, a commit met a
  // condemned blob.
  std::function<void(const std::string& ns, const std::string& cache)> sweep_wanted;
  // See SweepService::Parts::reported.
  std::function<void(const PodView& pod, const api::SweepRequest& request)> sweep_reported;
  // An agent could not save in the installation's own registry for want of room; or it could.
  std::function<void(bool full)> registry_room = {};
};

class AgentServices {
 public:
  AgentServices(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                const Clock& clock);

  // Takes over what the statuses say of sweeps, and gives every holder of a save lock one full
  // time-out.
  void take_over();
  [[nodiscard]] bool is_leader() const { return !is_leader_ || is_leader_(); }

 private:
  const AgentApiParts parts_;
  const std::function<bool()> is_leader_;
  const SweepWishes wishes_;
  const SaveContexts contexts_;

 public:
  const Callers callers;
  LoadService loads;
  SaveService saves;
  EffectService effects;
  SweepService sweeps;
  RegistryTokenService registry;
};

}  // namespace compilecache::controller
