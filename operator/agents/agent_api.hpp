#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "api/agent_api.hpp"
#include "base/clock.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/events.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/token_auth.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/archives/save_coordinator.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/settings/settings.hpp"

// The API that agents call (api/agent_api.hpp), as the handler of an http::Server.
//
//   AgentApi agent_api(parts, settings, hooks, clock);
//   agent_api.start();  // worker threads; they wait for the API server
//   auto server = http::Server::start(options, [&](auto request, auto respond) {
//     agent_api.handle(std::move(request), std::move(respond));
//   });
//   ...
//   agent_api.stop();  // finishes what it has begun
//
// Only the leader serves it; others answer 503 with Retry-After. The caller's pod is taken from its
// token and must be alive and carry our injection (or be a sweep Job's pod). Whatever is sent, the
// answer is JSON as api/agent_api.hpp says. Thread-safe. All parts must outlive it.

namespace compilecache::controller {

// What it works with; all of it shared with the rest of the operator.
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
};

// What it asks of the rest.
struct AgentApiHooks {
  std::function<bool()> is_leader;
  // An application's pod has called, whatever it asks for.
  std::function<void(const PodView& pod)> spoke;
  // A pod that the view does not have yet, from the API server; kNotFound when there is none.
  std::function<Result<PodView>(const std::string& ns, const std::string& name)> fetch_pod;
  // A sweep of that CompileCache is wanted soon: an archive became suspect, a commit met a
  // condemned blob.
  std::function<void(const std::string& ns, const std::string& cache)> sweep_wanted;
  // A sweep Job said that it begins or ended. `pod` is the Job's; `owner` in it names the Job.
  std::function<void(const PodView& pod, const api::SweepRequest& request)> sweep_reported;
};

class AgentApi {
 public:
  AgentApi(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks, const Clock& clock);
  ~AgentApi();
  AgentApi(const AgentApi&) = delete;
  AgentApi& operator=(const AgentApi&) = delete;

  void start();
  void stop();

  // Call once, when this replica has become the leader and the stores are synced, before
  // is_leader() says so: takes over what the statuses say, and gives every holder of a save lock
  // one full timeout.
  void take_over();

  // Queues the request for a worker, in turns with those of other addresses; answers 503 at once
  // when too many wait, 429 when too many of its own address do.
  void handle(http::Request request, http::Responder respond);
  // The answer itself, in this thread.
  [[nodiscard]] http::Response answer(const http::Request& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
