#pragma once

#include <optional>
#include <set>
#include <string>

#include "base/clock.hpp"
#include "operator/breaker/breaker.hpp"

// Which stuck pod is evicted next, so that its owner makes one without injection, and when to look
// again. Each pod once, one after the other at the settings' rate. Only when the webhooks of all
// replicas know that injection is paused: otherwise replacements would be injected too.
//
//   const Replacement next = choose_replacement(seen, {.open = true, ...}, rules);
//   if (next.pod != nullptr) ...   // evict it
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct ReplacementInput {
  bool open = false;                      // injection is paused
  std::optional<Monotonic> written_open;  // since when the status says so, as far as we have seen
  const std::set<std::string>& replaced;  // uids of pods that were evicted since it opened
  // The last eviction on account of any CompileCache; in the future where one was refused.
  std::optional<Monotonic> replaced_last;
  Monotonic now{};
};

struct Replacement {
  const StuckPod* pod = nullptr;  // of `seen`; nullptr: none now
  Duration again{0};              // when to look again; 0: when something changes
};

Replacement choose_replacement(const StuckPods& seen, const ReplacementInput& input,
                               const Settings::Breaker& rules);

}  // namespace compilecache::controller
