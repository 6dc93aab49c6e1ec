#pragma once

#include <chrono>
#include <string>

#include "api/compile_cache.hpp"
#include "webhook/directories.hpp"
#include "webhook/resources.hpp"
#include "webhook/settings.hpp"
#include "webhook/volumes.hpp"

// The containers that an injected pod gets, as JSON: two, or one that does the work of both
// (spec.delivery). Pure.

namespace compilecache::webhook {

struct AgentContainerInput {
  const InjectionSettings& settings;
  const std::string& environment;  // JSON, podspec/environment.hpp
  const DirectoryPlan& directories;
  const api::StoreRef& store;
  const ResourcePlan& resources;
  const std::string& security_context;        // JSON
  const std::string& saver_security_context;  // the saver's own
  bool saver_reads_only = false;
  OwnFolders own;                           // of what saves
  std::chrono::milliseconds load_limit{0};  // for a loader that a hook runs
};

// The init container, which fills the cache directories from an archive before the app starts.
std::string loader_container(const AgentContainerInput& input);

// The native sidecar, which saves what is new while the app runs, and once more at SIGTERM, which
// it gets after the app has ended. Its first process only supervises the saver, so that the
// container survives the saver's crashes. It has no probe and no hook: with a startupProbe every
// pod would start a second later.
std::string saver_container(const AgentContainerInput& input);

// The native sidecar that does both. Its postStart hook loads, and the kubelet starts nothing else
// of the pod before that has ended; its first process starts the saver then. The hook never fails,
// ends in `load_limit` and a few seconds, and loads once in a pod's life: a sidecar that
// restarts beside the application leaves the cache directories alone.
std::string sidecar_container(const AgentContainerInput& input);

// Longer than a loader with this configuration takes by its own rules, so that it can say itself
// what it was that took so long.
std::chrono::milliseconds load_limit(const api::CompileCacheSpec::Load& load);

}  // namespace compilecache::webhook
