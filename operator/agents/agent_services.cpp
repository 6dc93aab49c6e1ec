#include "operator/agents/agent_services.hpp"

#include <utility>

namespace compilecache::controller {

AgentServices::AgentServices(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                             const Clock& clock)
    : parts_(parts),
      is_leader_(std::move(hooks.is_leader)),
      wishes_(parts.view, parts.registry, std::move(hooks.sweep_wanted)),
      contexts_(parts.view, parts.crashes, parts.stats),
      callers(parts.view, parts.auth,
              {std::move(hooks.spoke), std::move(hooks.fetch_pod), std::move(hooks.devices),
               std::move(hooks.is_sweep_job)}),
      loads({parts.view, parts.pods, parts.traffic, parts.stats, contexts_, wishes_, settings,
             clock, parts.fresh},
            load_sinks(parts.view, parts.stats, parts.crashes, parts.metrics, parts.registry,
                       parts.events)),
      saves({parts.view, parts.pods, parts.saves, contexts_, wishes_, parts.stats, parts.traffic,
             parts.metrics, parts.events, clock, parts.usage, parts.repositories,
             hooks.registry_room}),
      effects({parts.view, parts.pods, parts.stats, parts.registry, parts.traffic, wishes_,
               parts.metrics, parts.events, clock, hooks.registry_room,
               std::move(hooks.can_own_files)}),
      sweeps({parts.view, parts.saves, parts.locks, parts.guard, parts.archives, parts.registry,
              wishes_, parts.stats, parts.metrics, settings, parts.usage, clock,
              std::move(hooks.sweep_reported)}),
      registry({parts.view, settings, parts.minter, parts.usage}) {}

void AgentServices::take_over() {
  for (const auto& cache : parts_.view.caches()) {
    std::vector<std::string> listed;
    for (const api::CondemnedBlob& blob : parts_.stats.condemned(cache->metadata.key())) {
      listed.push_back(blob.digest);
    }
    parts_.guard.take_over(cache->metadata.key(), listed);
    for (const auto& archive : parts_.view.archives_of(cache->metadata.ns, cache->metadata.name)) {
      parts_.saves.take_over(*archive, cache->spec.save.lock_timeout);
    }
  }
}

}  // namespace compilecache::controller
