#include "operator/registry/registry_restart.hpp"

#include <nlohmann/json.hpp>

#include "base/time_format.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

std::optional<WallTime> time_at(const json& object, std::initializer_list<const char*> path) {
  const auto time = parse_time(kube::string_at(object, path));
  return time ? std::optional(*time) : std::nullopt;
}

std::string mounts(const json& deployment) {
  return kube::string_at(deployment,
                         {"spec", "template", "metadata", "annotations", kMountedAnnotation});
}

bool has_lasted(const std::optional<WallTime>& since, WallTime now, Duration patience) {
  return !since || now - *since >= patience;
}

}  // namespace

bool runs_as_written(const json& deployment) {
  const json status = deployment.value("status", json::object());
  const auto number = [&](const char* name) { return status.value(name, 0); };
  return status.value("observedGeneration", 0) >=
             deployment.value("metadata", json::object()).value("generation", 1) &&
         number("replicas") == 1 && number("updatedReplicas") == 1 && number("readyReplicas") == 1;
}

RestartFacts restart_facts(const json& deployment, const json& reader, const std::string& mounted,
                           WallTime now) {
  RestartFacts facts{.runs = runs_as_written(deployment), .now = now};
  facts.started =
      time_at(deployment, {"spec", "template", "metadata", "annotations", kStartedAnnotation});
  facts.mounted = mounts(deployment) == mounted;
  facts.due = !facts.mounted;
  if (reader.is_null()) return facts;
  facts.has_reader = true;
  facts.reader_scaled_up = reader.value("spec", json::object()).value("replicas", 1) > 0;
  facts.reader_is_current = facts.reader_scaled_up && mounts(reader) == mounted;
  facts.reader_ready = facts.reader_scaled_up && runs_as_written(reader);
  facts.requested = time_at(reader, {"metadata", "annotations", kRequestedAnnotation});
  facts.due =
      facts.due || (facts.requested && (!facts.started || *facts.started < *facts.requested));
  return facts;
}

RestartStep next_restart_step(const RestartFacts& facts) {
  if (facts.due) {
    if (!facts.has_reader) return RestartStep::kRestart;
    // Of a pod that does not serve, a reader that is not ready has nothing to take over.
    if (!facts.runs) return facts.reader_ready ? RestartStep::kRestart : RestartStep::kRestartAlone;
    if (facts.reader_ready && facts.reader_is_current) return RestartStep::kRestart;
    if (!facts.reader_is_current) return RestartStep::kStartReader;
    return has_lasted(facts.requested, facts.now, kReaderTimeout) ? RestartStep::kRestartAlone
                                                                  : RestartStep::kWait;
  }
  if (!facts.reader_scaled_up) return RestartStep::kNone;
  const bool over = facts.runs || has_lasted(facts.started, facts.now, kRestartTimeout);
  return over ? RestartStep::kStopReader : RestartStep::kWait;
}

}  // namespace compilecache::controller
