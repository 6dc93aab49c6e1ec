#pragma once

#include <nlohmann/json.hpp>

#include "webhook/agent_containers.hpp"

// What the loader and the saver have in common; internal to this folder.

namespace compilecache::webhook {

nlohmann::json agent_container(const AgentContainerInput& input, const char* name,
                               const char* command, bool store_read_only,
                               const nlohmann::json& resources);

}  // namespace compilecache::webhook
