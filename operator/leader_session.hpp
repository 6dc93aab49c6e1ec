#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "operator/caches/invalid_caches.hpp"
#include "operator/certificates/certificate_source.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/cluster/cluster_watch.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/settings/settings.hpp"
#include "podspec/pod_fragments.hpp"

// The work of the leader alone: it watches claims, Jobs and refused pods, reconciles CompileCaches
// and answers agents.
//
//   LeaderSession session(parts, {.ns = ns, .image = image});
//   session.start();      // at on_started: returns at once, works as soon as its stores are synced
//   session.handle(std::move(request), std::move(respond));   // the agent API's requests
//   session.stop();       // before the lease is released: writes what is not written yet
//
// start() and stop() are called once each.

namespace compilecache::controller {

struct LeaderOptions {
  std::string ns;     // the operator's
  std::string image;  // the image of sweep Jobs
  // Our address in the EndpointSlice, where agents reach us. Empty: no slice is written (an
  // operator outside the cluster).
  std::string endpoint_address;
  uint16_t endpoint_port = 9444;
  std::vector<podspec::Variable> proxy = {};  // variables that lead Jobs out of the cluster
  bool replace_stuck_pods = false;            // evict those that cannot start with what is injected
};

struct LeaderParts {
  kube::Client client;
  const Settings& settings;
  // What every replica watches is filled by its owners, the rest here.
  ClusterStores& stores;
  const ClusterWatch& watch;
  InvalidCaches& invalid;
  CertificateSource& certificates;
  kube::EventSink& events;
  Metrics& metrics;
  std::function<bool()> is_leader;
  const Clock& clock;
  // Of the installation's own registry, where it has one.
  const TokenMinter* minter = nullptr;
  RegistryKeeper* registry = nullptr;
};

class LeaderSession {
 public:
  LeaderSession(LeaderParts parts, LeaderOptions options);
  ~LeaderSession();
  LeaderSession(const LeaderSession&) = delete;
  LeaderSession& operator=(const LeaderSession&) = delete;

  void start();
  void stop();

  // The installation's own registry is another one than before. Thread-safe.
  void registry_changed();

  // The Service of the agent API has another address than before, or trouble (ClusterStores::agents
  // says which). Thread-safe.
  void agent_service_changed();

  // Whether this session works: its stores are synced, what the previous leader left is taken over.
  // Thread-safe.
  [[nodiscard]] bool serving() const;
  // Handles an agent's request; answers 503 with Retry-After until this session works. Thread-safe.
  void handle(http::Request request, http::Responder respond);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The answer of replicas that do not lead to agents.
http::Response not_leading();

}  // namespace compilecache::controller
