#pragma once

#include <memory>

#include "base/clock.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/client.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/cluster/cluster_watch.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/settings/settings.hpp"

// Answers agents on a replica that does not lead (operator/agents/load_desk), and holds the state
// for that: identified callers, present loads, devices of pods.
//
//   FollowerSession follower({client, settings, stores, watch, clock, &minter});
//   follower.start();
//   follower.handle(std::move(request), std::move(respond));
//   follower.stop();
//
// Thread-safe but for start() and stop(), which are called once each.

namespace compilecache::controller {

struct FollowerParts {
  kube::Client client;
  const Settings& settings;
  ClusterStores& stores;
  const ClusterWatch& watch;
  const Clock& clock;
  const TokenMinter* minter = nullptr;  // of the installation's own registry, where it has one
};

class FollowerSession {
 public:
  explicit FollowerSession(FollowerParts parts);
  ~FollowerSession();
  FollowerSession(const FollowerSession&) = delete;
  FollowerSession& operator=(const FollowerSession&) = delete;

  void start();
  void stop();
  void handle(http::Request request, http::Responder respond);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// For a GET of the one archive that is about to be handed out: a load waits for it.
kube::Client archive_reader(const kube::Client& client);

}  // namespace compilecache::controller
