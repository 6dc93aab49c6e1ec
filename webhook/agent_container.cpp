#include "webhook/agent_container.hpp"

#include "webhook/environment.hpp"
#include "webhook/volumes.hpp"

namespace compilecache::webhook {

using nlohmann::json;

json agent_container(const AgentContainerInput& input, const char* name, const char* command,
                     bool store_read_only, const json& resources) {
  json container = {{"name", name},
                    {"image", input.settings.image},
                    {"command", json::array({"compilecache-agent"})},
                    {"args", json::array({command})},
                    {"env", agent_environment(input.config)},
                    {"securityContext", input.security_context},
                    {"terminationMessagePolicy", "FallbackToLogsOnError"},
                    {"volumeMounts", agent_mounts(input.directories, store_read_only)}};
  if (!resources.empty()) container["resources"] = resources;
  return container;
}

}  // namespace compilecache::webhook
