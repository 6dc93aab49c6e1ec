#pragma once

#include "api/agent_api.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/fresh_archives.hpp"
#include "operator/agents/load_traffic.hpp"
#include "operator/agents/registry_token_service.hpp"
#include "operator/settings/settings.hpp"

// The answers of a replica that does not lead: which archive to load, and tokens to read it. It
// knows only the objects that it watches, so it answers less than the leader.
//
//   FollowerServices services{FollowerLoads({view, settings, traffic, fresh}),
//                             FollowerTokens({view, settings, &minter, nullptr})};
//   Result<api::LoadAnswer> answer = services.loads.load(caller, request);
//
// kUnavailable wherever the leader has to be asked. Thread-safe; blocks on the API server.

namespace compilecache::controller {

// Says `load`, or `none` to a pod that does not wait for a first pod. Which pod goes first, and
// what the other pods of a group were given, only the leader knows.
class FollowerLoads {
 public:
  struct Parts {
    const ClusterView& view;
    const Settings& settings;
    LoadTraffic& traffic;  // with half of the places
    const FreshArchives& fresh;
  };

  explicit FollowerLoads(Parts parts) : parts_(parts) {}

  Result<api::LoadAnswer> load(const Caller& caller, const api::LoadRequest& request);

 private:
  const Parts parts_;
};

// Tokens to pull; who may push, the leader says, which counts what is used.
class FollowerTokens {
 public:
  explicit FollowerTokens(RegistryTokenService::Parts parts) : tokens_(parts) {}

  Result<api::RegistryToken> token(const Caller& caller, const api::RegistryTokenRequest& request);

 private:
  const RegistryTokenService tokens_;
};

struct FollowerServices {
  FollowerLoads loads;
  FollowerTokens registry;
};

}  // namespace compilecache::controller
