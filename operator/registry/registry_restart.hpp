#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "base/clock.hpp"

// The steps of a restart of the registry's pod, while a second pod serves reads.
//
//   const RestartFacts facts = restart_facts(deployment, reader, mounted, clock.wall());
//   if (next_restart_step(facts) == RestartStep::kStartReader) ...
//
// The second pod, the reader, is a Deployment of its own that has no pods between restarts. It
// mounts the same volume, read-only, and is in the same Service. All that the steps depend on is
// in the two Deployments, so that another leader goes on where the last one ended. Pure.

namespace compilecache::controller {

// What a pod mounts, on its template: mounted_hash().
inline constexpr char kMountedAnnotation[] = "compilecache.dev/mounted";
// When the pod's last start was requested, on its template: RFC 3339. A start collects garbage.
inline constexpr char kStartedAnnotation[] = "compilecache.dev/started";
// When a restart was requested, on the reader's Deployment: RFC 3339. It is done once the pod has a
// start of that time or later.
inline constexpr char kRequestedAnnotation[] = "compilecache.dev/restart-requested";

// A reader that is not ready by then cannot mount the volume (ReadWriteOncePod), or has no room on
// the pod's node: the pod is restarted without it.
inline constexpr Duration kReaderTimeout = std::chrono::seconds(60);
// Longer than a collection may take. A pod that is not ready by then may wait for the volume, which
// the reader has mounted on another node.
inline constexpr Duration kRestartTimeout = std::chrono::minutes(15);

struct RestartFacts {
  bool mounted = false;               // the template says what the pod is to mount
  bool due = false;                   // the pod is to be restarted
  bool runs = false;                  // the pod is ready, and of its Deployment's present template
  bool has_reader = false;            // its Deployment is there
  bool reader_scaled_up = false;      // whatever it mounts
  bool reader_is_current = false;     // it is scaled up, with what the pod is to mount
  bool reader_ready = false;          // it serves
  std::optional<WallTime> started;    // the pod's last start, as kStartedAnnotation has it
  std::optional<WallTime> requested;  // when the reader was scaled up, or a restart requested
  WallTime now{};
};

// `reader`: null where there is no such Deployment. `mounted`: what the pod is to mount.
RestartFacts restart_facts(const nlohmann::json& deployment, const nlohmann::json& reader,
                           const std::string& mounted, WallTime now);

enum class RestartStep {
  kNone,
  kWait,          // for a pod to become ready
  kStartReader,   // scale it up
  kRestart,       // the pod
  kRestartAlone,  // the same, after the reader was scaled down
  kStopReader,    // scale it down
};
RestartStep next_restart_step(const RestartFacts& facts);

// Whether the one pod that runs is of the Deployment's present template, and is ready.
bool runs_as_written(const nlohmann::json& deployment);

}  // namespace compilecache::controller
