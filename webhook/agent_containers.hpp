#pragma once

#include <string>

#include "webhook/directories.hpp"
#include "webhook/resources.hpp"
#include "webhook/settings.hpp"

// The two containers that an injected pod gets, as JSON. Pure.

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
  bool has_spool = false;  // the saver
};

// The init container, which fills the cache directories from an archive before the app starts.
std::string loader_container(const AgentContainerInput& input);

// The native sidecar, which saves what is new while the app runs, and once more at SIGTERM, which
// it gets after the app has ended. Its first process only supervises the saver, so that the
// container survives the saver's crashes. It has no probe and no hook: with a startupProbe every
// pod would start a second later.
std::string saver_container(const AgentContainerInput& input);

}  // namespace compilecache::webhook
