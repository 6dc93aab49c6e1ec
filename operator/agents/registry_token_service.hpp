#pragma once

#include "api/agent_api.hpp"
#include "operator/agents/caller.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/settings/settings.hpp"

// Tokens of the installation's own registry for injected pods: for the repository of the pod's own
// CompileCache, whatever else there is.
//
//   RegistryTokenService registry({view, settings, &minter, &usage});
//   Result<api::RegistryToken> token = registry.token(caller, {.push = true});
//
// Thread-safe.

namespace compilecache::controller {

class RegistryTokenService {
 public:
  struct Parts {
    const ClusterView& view;
    const Settings& settings;
    const TokenMinter* minter;   // nullptr: the installation has no registry
    const RegistryUsage* usage;  // likewise
  };

  explicit RegistryTokenService(Parts parts) : parts_(parts) {}

  // kNotFound: there is no registry, or the CompileCache does not use it. kForbidden: it copies
  // from nowhere, or this is no sweep Job's pod. kUnavailable: the tokens' authority is not there
  // yet.
  Result<api::RegistryToken> token(const Caller& caller,
                                   const api::RegistryTokenRequest& request) const;

 private:
  [[nodiscard]] Result<api::RegistryToken> for_source(const Caller& caller) const;

  const Parts parts_;
};

}  // namespace compilecache::controller
