#include "api/names.hpp"
#include "webhook/agent_container.hpp"

namespace compilecache::webhook {

std::string loader_container(const AgentContainerInput& input) {
  return agent_container(input, {.name = api::kLoaderContainer,
                                 .program = {"compilecache-agent"},
                                 .command = "load",
                                 .store_read_only = true,
                                 .resources = input.resources.loader,
                                 .security_context = input.security_context});
}

}  // namespace compilecache::webhook
