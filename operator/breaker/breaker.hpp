#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "base/clock.hpp"
#include "operator/breaker/pod_troubles.hpp"
#include "operator/settings/settings.hpp"

// Decides whether pods of one CompileCache are injected, or start without the cache because earlier
// pods could not start with what is injected. No clock and no I/O: all that it knows is passed in.
//
//   const StuckPods seen = troubles.evaluate(pods, failed_mounts, now);   // pod_troubles.hpp
//   const BreakerVerdict verdict = judge_breaker(before, {.seen = seen, .nodes = 3}, rules, now);
//
// It opens when trouble has lasted (patience), on more than one node where there is more than one.
// Much later it opens on one node alone, if no other pod started. The pods in trouble must be a
// share of those made at about the same time, so an odd pod among many never opens it. A pod that
// was not admitted on our account opens it at once: without us it would exist.
//
// It closes when those pods start after all, or when a probe has run, a sweep Job on the node that
// failed. It never closes sooner than a pause after it opened, which doubles with every opening and
// failed probe, so that it flaps ever more rarely.
//
// Times of pods are by the API server's clock and are compared with each other only. All others are
// by our clock or a previous leader's. The latter count if they can be right.

namespace compilecache::controller {

enum class Probe { kNone, kRuns, kSucceeded, kFailed };

// What outlives this process, in status.breaker and the condition InjectionPaused.
struct BreakerState {
  bool open = false;
  std::optional<WallTime> since;  // when it opened or closed last; nothing: it never did
  int openings = 0;               // in a row
  int failed_probes = 0;          // since it opened
  WallTime probe_at{};            // when open: the next probe is due
  std::string node;               // where to probe; empty: anywhere
  std::string newest_pod;         // when that was made which was the newest when it closed last
  std::string reason, message;

  bool operator==(const BreakerState&) const = default;
};
BreakerState read_breaker(const api::CompileCacheStatus& status);
// Writes the state into status.breaker and status.conditions.
void write_breaker(const BreakerState& state, int64_t generation, const std::string& now,
                   api::CompileCacheStatus& status);

// A pod that was not admitted on account of our containers.
struct RefusedPod {
  std::string text;  // for people
};

struct BreakerInput {
  StuckPods seen;
  size_t nodes = 0;  // of the cluster
  Probe probe = Probe::kNone;
  bool spec_changed = false;                         // since it opened: worth a probe at once
  std::optional<RefusedPod> refused = std::nullopt;  // since it closed last
};

struct BreakerVerdict {
  BreakerState state;
  bool probe = false;              // one is due
  std::vector<std::string> stuck;  // names for the status, a bounded number
  Duration again{0};               // when to judge again; 0: when something changes
};

BreakerVerdict judge_breaker(const BreakerState& before, const BreakerInput& sight,
                             const Settings::Breaker& rules, WallTime now);

// How long an opening lasts at least, and how far probes are apart.
Duration pause_of(const BreakerState& state, const Settings::Breaker& rules);

}  // namespace compilecache::controller
