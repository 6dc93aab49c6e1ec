#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/explain/pod_story.hpp"

// Common facts of the pods of one workload: `kubectl compilecache explain deployment/web`.
//
//   const WorkloadStory story = tell_workload({.ns = "ml", .workload = "Deployment/web"});
//   std::cout << text_of(story);            // a screen
//   std::cout << json_of(story).dump(2);    // the same for scripts
//
// Pure: no clock, no I/O; safe from any thread.

namespace compilecache::cli {

struct WorkloadPod {
  PodStory story;
  bool timed = false;  // everything about the time of its start was read
};

struct WorkloadFacts {
  std::string ns, workload;       // "Deployment/web"
  int64_t pods_in_all = 0;        // that its selector selects
  std::vector<WorkloadPod> pods;  // some of them or all, the newest first
};

// How a pod started:
//   warm          an archive was loaded, and nothing is known against it
//   partial       it was of use, and more was compiled
//   cold          none was loaded, or nothing of it was of use
//   not_injected
//   unknown       its loader has not reported
enum class StartOutcome { kWarm, kPartial, kCold, kNotInjected, kUnknown };

struct PodsAlike {
  StartOutcome outcome = StartOutcome::kUnknown;
  std::string reason, why;  // a word of docs/troubleshoot/reasons.md; a sentence
  int64_t pods = 0;
  std::string newest;               // of these pods
  std::vector<std::string> change;  // what that one's story says
};

struct CommonKey {
  std::string archive;  // the key's, whether it exists or not; empty: the key is not known
  std::map<std::string, std::string> parts;
  int64_t pods = 0;
};

struct LoadedArchive {
  std::string archive;
  int64_t generation = 0, pods = 0;
};

struct PodStart {
  std::string pod, created;
  std::optional<int64_t> milliseconds;  // nothing: not ready
  StartOutcome outcome = StartOutcome::kUnknown;
  std::string reason;
  std::optional<int64_t> kv_cache_tokens;  // as the engine's log says
};

struct MedianPhase {
  StartPhase phase;  // with the median of its times, and one pod's note
  int64_t pods = 0;  // that have it
};

struct WorkloadStory {
  std::string ns, workload;
  std::vector<std::string> caches;  // the pods' CompileCaches
  int64_t pods_in_all = 0, pods = 0;
  std::vector<PodsAlike> outcomes;      // most pods first
  std::vector<CommonKey> keys;          // of the injected pods, most pods first
  std::vector<std::string> differing;   // the names of the parts that keys differ in
  std::vector<LoadedArchive> archives;  // most pods first
  std::vector<PodStart> newest;         // those that were timed
  std::optional<int64_t> median;        // milliseconds from creation until ready
  std::vector<MedianPhase> phases;
  std::map<std::string, int64_t> untold;  // with the number of pods
  std::optional<PodsAlike> fault;         // the commonest that something can be done about
  std::vector<std::string> unread;

  [[nodiscard]] int64_t count(StartOutcome outcome) const;
};

WorkloadStory tell_workload(const WorkloadFacts& facts);

std::string text_of(const WorkloadStory& story);
nlohmann::json json_of(const WorkloadStory& story);

}  // namespace compilecache::cli
