#include "agent/tools/effect.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "agent/control_directory.hpp"
#include "agent/watched.hpp"
#include "base/log.hpp"

namespace compilecache::agent {

int run_effect(const api::AgentConfig& config, const store::Store& store, bool as_json,
               const Clock& clock) {
  const ControlDirectory control(config.control_path);
  const LoadStatus load = control.read_status().value_or(LoadStatus{});
  Watched watched(config, store, load, control, clock);
  if (const auto looked = watched.look(); !looked) {
    log_error("cannot look at the cache", {{"error", looked.error().message}});
    return 1;
  }
  const auto evidence = watched.judge();
  const nlohmann::json found{{"loaded", load.loaded()},
                             {"effect", api::to_string(evidence.effect)},
                             {"loadedEntries", evidence.loaded_entries},
                             {"readEntries", evidence.read_entries},
                             {"newEntries", evidence.new_entries},
                             {"newNames", evidence.new_names},
                             {"differing", evidence.differing},
                             {"compileSeconds", evidence.compile_seconds()}};
  if (as_json) {
    std::printf("%s\n",
                found.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s: of %lu loaded entries %lu were read; %lu are new\n",
                load.loaded() ? found["effect"].get<std::string>().c_str() : "nothing was loaded",
                static_cast<unsigned long>(evidence.loaded_entries),
                static_cast<unsigned long>(evidence.read_entries),
                static_cast<unsigned long>(evidence.new_entries));
  }
  return 0;
}

}  // namespace compilecache::agent
