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
  const ResourcePlan& resources;
  const std::string& security_context;        // JSON
  const std::string& saver_security_context;  // and the saver's
  bool saver_reads_only = false;
};

// The init container: fills the cache directories from an archive, before anything of the app runs.
std::string loader_container(const AgentContainerInput& input);

// The native sidecar: packs what is new while the app runs, and once more at SIGTERM, which it gets
// after the app has ended. Its first process only supervises the saver, so that a crash is none of
// the container's. No probe and no hook: with a startupProbe every pod would start a second
// later.
std::string saver_container(const AgentContainerInput& input);

}  // namespace compilecache::webhook
