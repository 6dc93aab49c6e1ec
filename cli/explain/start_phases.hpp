#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/agent_config.hpp"
#include "api/recent_pods.hpp"
#include "base/clock.hpp"

// Where each second of a pod's start went, as far as it is known. The sources are the pod's
// conditions and its containers' times, Events of pulled images, the loader's report, and the log
// of its application, where a known engine wrote it (engine_lines.hpp).
//
//   const StartTimes times = start_times({.pod = pod, .events = events, .log = log});
//   for (const StartPhase& phase : times.phases)
//     std::cout << phase.name << " " << phase.milliseconds << "\n";
//   for (const std::string& what : times.untold) std::cout << what << "\n";
//
// Nothing is guessed: what nobody tells is in `untold`, with the reason. Pure: no clock, no I/O;
// safe from any thread. Any part of the objects may be missing.

namespace compilecache::cli {

struct StartFacts {
  nlohmann::json pod;
  std::vector<nlohmann::json> events;
  bool events_unread = false;
  std::optional<api::InjectionStatus> injection;
  std::optional<api::RecentPod> recent;  // what the loader has reported
  std::optional<std::string> log;        // of the application, with times; nothing: not read
};

struct StartPhase {
  std::string name;  // "wait", "load", ...
  int64_t milliseconds = 0;
  std::string note;
  bool to_the_second = false;  // Kubernetes keeps these times in seconds
  std::string within;          // the phase that it is a part of; empty: of none
};

struct StartTimes {
  std::vector<StartPhase> phases;   // as they follow each other; parts after what they are part of
  std::vector<std::string> untold;  // "pulls: no Event of an image is left"
  std::optional<int64_t> milliseconds;     // from the pod's creation until it was ready
  std::optional<int64_t> kv_cache_tokens;  // as the engine's log says
};

StartTimes start_times(const StartFacts& facts);

// The container whose start and log are the application's: the first that was injected, or the one
// that kubectl takes. Empty where the pod has none.
std::string application_container(const nlohmann::json& pod,
                                  const std::optional<api::InjectionStatus>& injection);

// Nothing while it has not started, and after it was started again: Kubernetes keeps the times and
// the log of the last start only.
std::optional<WallTime> first_start(const nlohmann::json& pod, const std::string& container);

}  // namespace compilecache::cli
