#pragma once

#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "webhook/directories.hpp"
#include "webhook/resources.hpp"
#include "webhook/settings.hpp"

// The two containers that an injected pod gets. Pure.

namespace compilecache::webhook {

struct AgentContainerInput {
  const InjectionSettings& settings;
  const api::AgentConfig& config;
  const DirectoryPlan& directories;
  const ResourcePlan& resources;
  const nlohmann::json& security_context;
};

// The init container: fills the cache directories from an archive, before anything of the app runs.
nlohmann::json loader_container(const AgentContainerInput& input);

// The native sidecar: packs what is new while the app runs, and once more at SIGTERM, which it gets
// after the app has ended. No probe and no hook: with a startupProbe every pod would start a second
// later.
nlohmann::json saver_container(const AgentContainerInput& input);

}  // namespace compilecache::webhook
