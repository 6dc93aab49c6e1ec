#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/coordinator.hpp"
#include "api/agent_config.hpp"
#include "store/registry/registry_options.hpp"

// How an agent gets into the registry that its configuration names.
//
//   if (const auto* registry = config.store->registry()) {
//     auto store = store::open_registry(registry_options(config, *registry, coordinator));
//   }

namespace compilecache::agent {

// Gives the coordinator that tokens of the installation's own registry are asked of; called at the
// first need.
using CoordinatorSource = std::function<std::unique_ptr<Coordinator>()>;

// A user's registry is entered with the mounted Secret and ConfigMap. The installation's
// own is entered with tokens of the operator, under the operator's authorities, at the configured
// address. On the loopback (a registry beside the agent, by hand) HTTP is spoken where no
// authorities are named. Blobs to push are kept in the saver's folder for them, or in the
// control directory. Reads nothing yet.
store::RegistryOptions registry_options(const api::AgentConfig& config,
                                        const api::RegistryRef& registry,
                                        CoordinatorSource coordinator);

// The same for a load, which a container waits for. It gives up after two seconds if nobody takes
// the connection, and after five if no manifest comes, however much the archive would save. Saves
// and sweeps bridge a restart of the registry.
store::RegistryOptions loading_options(const api::AgentConfig& config,
                                       const api::RegistryRef& registry,
                                       CoordinatorSource coordinator);

// The same of a registry that a sweep Job copies from, of which it has a Secret, a ConfigMap and
// tokens of its own.
store::RegistryOptions source_registry_options(const api::AgentConfig& config,
                                               const api::RegistryRef& registry,
                                               CoordinatorSource coordinator);

}  // namespace compilecache::agent
