#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/device_facts.hpp"
#include "base/clock.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/token_auth.hpp"
#include "operator/archives/archive_client.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/settings/settings.hpp"

// The part of the agent API that a replica answers without being the leader: loads, and tokens to
// read the installation's own registry (operator/agents/follower_loads).
//
//   LoadDesk desk(parts, settings, clock);
//   desk.start();
//   desk.handle(std::move(request), std::move(respond));   // 503: ask the leader
//   desk.stop();
//
// Thread-safe. All parts must outlive it.

namespace compilecache::controller {

struct LoadDeskParts {
  const ClusterView& view;
  TokenAuth& auth;
  LoadTraffic& traffic;
  ArchiveClient& archives;                          // with a short timeout
  std::function<std::optional<Monotonic>()> heard;  // see ClusterWatch::archives_heard()
  std::function<bool()> has_synced;                 // whether the view is complete
  std::function<Result<PodView>(const std::string& ns, const std::string& name)> fetch_pod;
  std::function<Result<api::DeviceFacts>(const PodView& pod, const std::string& node)> devices;
  const TokenMinter* minter = nullptr;  // nullptr: the installation has no registry
};

class LoadDesk {
 public:
  LoadDesk(LoadDeskParts parts, const Settings& settings, const Clock& clock);
  ~LoadDesk();
  LoadDesk(const LoadDesk&) = delete;
  LoadDesk& operator=(const LoadDesk&) = delete;

  void start();
  void stop();
  void handle(http::Request request, http::Responder respond);
  // The answer itself, in this thread.
  [[nodiscard]] http::Response answer(const http::Request& request) const;

  // How many pods may load from one store by the answers of a replica that does not lead: half, so
  // that two replicas together stay within twice the limit.
  static int places(const Settings& settings);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
