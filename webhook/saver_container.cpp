#include "api/names.hpp"
#include "api/outcomes.hpp"
#include "webhook/agent_container.hpp"

namespace compilecache::webhook {

nlohmann::json saver_container(const AgentContainerInput& input) {
  // It is there in mode ReadOnly too, to tell whether what was loaded is used.
  const bool read_only = input.config.mode == to_string(api::Mode::kReadOnly);
  nlohmann::json container =
      agent_container(input, api::kSaverContainer, "save", read_only, input.resources.saver);
  container["restartPolicy"] = "Always";
  return container;
}

}  // namespace compilecache::webhook
