#include <algorithm>

#include "operator/agents/agent_handlers.hpp"

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

// The share of the loaded entries that the app has read.
double AgentHandlers::seconds_saved(const Caller& caller, api::Effect effect,
                                    const api::EffectReport& report) const {
  if (effect != api::Effect::kFull && effect != api::Effect::kPartial) return 0;
  const auto worth = worth_of(caller);
  // What a previous leader has counted stays, where what it knew is not to be had any more.
  if (!worth) return parts_.stats.seconds_of(caller.key(), caller.pod->uid);
  if (report.loaded_entries <= 0) return *worth;
  const double share =
      static_cast<double>(report.read_entries) / static_cast<double>(report.loaded_entries);
  return *worth * std::clamp(share, 0.0, 1.0);
}

// The compile time of what the pod loaded. Where the load was reported to a previous leader, it is
// that of the same generation, as long as that is the head or the previous one: the archive may
// have grown.
std::optional<double> AgentHandlers::worth_of(const Caller& caller) const {
  if (const auto worth = parts_.stats.worth_of(caller.key(), caller.pod->uid)) return worth;
  const auto archive =
      parts_.view.archive(caller.ns(), parts_.stats.archive_of(caller.key(), caller.pod->uid));
  const int64_t generation = parts_.stats.generation_of(caller.key(), caller.pod->uid);
  if (archive == nullptr || generation == 0) return std::nullopt;
  for (const api::ArchiveHead* head : {&archive->head, &archive->previous}) {
    if (head->generation == generation) return head->compile_seconds;
  }
  return std::nullopt;
}

}  // namespace compilecache::controller
