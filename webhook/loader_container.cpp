#include "api/names.hpp"
#include "webhook/agent_container.hpp"

namespace compilecache::webhook {

nlohmann::json loader_container(const AgentContainerInput& input) {
  return agent_container(input, api::kLoaderContainer, "load", true, input.resources.loader);
}

}  // namespace compilecache::webhook
