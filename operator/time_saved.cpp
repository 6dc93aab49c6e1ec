#include <algorithm>

#include "operator/agent_handlers.hpp"

// What a loaded archive was worth to a pod.

namespace compilecache::controller {

// What it took to compile what that manifest holds. The archive may have grown since.
double AgentHandlers::compile_seconds_of(const Caller& caller, const std::string& archive,
                                         const std::string& manifest) const {
  const auto known = parts_.view.archive(caller.ns(), archive);
  if (known == nullptr) return 0;
  const bool is_previous = known->previous.exists() && known->previous.manifest_digest == manifest;
  return (is_previous ? known->previous : known->head).compile_seconds;
}

// Of what was loaded, the share that the app has read.
double AgentHandlers::seconds_saved(const Caller& caller, api::Effect effect,
                                    const api::EffectReport& report) const {
  if (effect != api::Effect::kFull && effect != api::Effect::kPartial) return 0;
  const auto worth = parts_.board.worth_of(caller.key(), caller.pod->uid);
  // Unknown where the load was reported to an earlier leader.
  const double whole =
      worth
          ? *worth
          : compile_seconds_of(caller, parts_.board.archive_of(caller.key(), caller.pod->uid), "");
  if (report.loaded_entries <= 0) return whole;
  const double share =
      static_cast<double>(report.read_entries) / static_cast<double>(report.loaded_entries);
  return whole * std::clamp(share, 0.0, 1.0);
}

}  // namespace compilecache::controller
