#pragma once

#include <string>
#include <vector>

#include "webhook/agent_containers.hpp"
#include "webhook/volumes.hpp"

// What our containers have in common; internal to this folder.

namespace compilecache::webhook {

struct AgentContainer {
  const char* name;
  std::vector<std::string> program;
  const char* command;
  bool store_read_only = false;
  OwnFolders own;
  bool is_sidecar = false;
  const ContainerAmounts& resources;
  const std::string& security_context;    // JSON
  std::vector<std::string> post_start{};  // the hook's command; empty: none
};

std::string agent_container(const AgentContainerInput& input, const AgentContainer& container);

}  // namespace compilecache::webhook
