#include "api/names.hpp"
#include "webhook/agent_container.hpp"

namespace compilecache::webhook {

std::string saver_container(const AgentContainerInput& input) {
  return agent_container(input, {.name = api::kSaverContainer,
                                 .program = {"compilecache-supervise", "compilecache-agent"},
                                 .command = "save",
                                 .store_read_only = input.saver_reads_only,
                                 .own = input.own,
                                 .is_sidecar = true,
                                 .resources = input.resources.saver,
                                 .security_context = input.saver_security_context});
}

}  // namespace compilecache::webhook
