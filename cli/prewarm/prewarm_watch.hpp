#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache_archive.hpp"
#include "api/recent_pods.hpp"
#include "base/clock.hpp"

// The progress of a pod that is to warm an archive: what it does now, whether it is done, and
// whether waiting is of any use.
//
//   PrewarmWatch watch({.unscheduled = 5min, .stuck = 2min, .all = 30min}, now);
//   const PrewarmNews news = watch.look(sight, now);     // again and again, until it is over
//
// Pure but for the times it remembers; each object is for one thread.

namespace compilecache::cli {

struct PrewarmPatience {
  std::chrono::milliseconds unscheduled, stuck, all;
};

// The API server's state at a moment.
struct PrewarmSight {
  std::optional<nlohmann::json> pod;                // nothing: it was deleted
  std::optional<api::CompileCacheArchive> archive;  // of the pod's key
  std::optional<api::RecentPod> told;               // of the CompileCache's status, of this pod
  int64_t generation_before = 0;                    // of the archive, when the pod was made

  // Takes the archive that the pod saves. `archives` are those of its key but for the kind of CPU:
  // which one is for its host's CPU shows when it saves. `before`: their generations by name, when
  // the pod was made.
  void take_archive(std::vector<api::CompileCacheArchive> archives,
                    const std::map<std::string, int64_t>& before, const std::string& pod_name);
};

struct PrewarmNews {
  enum class State { kUnderWay, kWarm, kFailed };
  State state = State::kUnderWay;
  std::string text;          // what it does, or what it came to
  std::string archive = {};  // of kWarm: the name of what pods load
};

class PrewarmWatch {
 public:
  PrewarmWatch(const PrewarmPatience& patience, Monotonic now) : patience_(patience), start_(now) {}

  PrewarmNews look(const PrewarmSight& sight, Monotonic now);

 private:
  // What keeps the pod from going on; each has its time.
  enum class Hold { kNone, kUnscheduled, kStuck, kNotSaved, kEnded };
  PrewarmNews wait_for(Hold hold, const std::string& what, std::chrono::milliseconds patience,
                       Monotonic now);

  PrewarmPatience patience_;
  Monotonic start_;
  Hold hold_ = Hold::kNone;
  Monotonic held_since_;
  std::string stuck_;  // why a container did not start when we last saw a reason
};

// Whether the archive is there for a pod to load.
bool is_usable(const api::CompileCacheArchive& archive);

}  // namespace compilecache::cli
