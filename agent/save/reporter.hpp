#pragma once

#include <optional>
#include <string>

#include "agent/control_directory.hpp"
#include "agent/coordinator.hpp"
#include "agent/save/save_attempt.hpp"
#include "base/clock.hpp"
#include "frameworks/effect.hpp"

namespace compilecache::agent {

// Reports the effect of the load and the outcomes of saves to the operator: only changes, and again
// later what did not get through. Not thread-safe.
class Reporter {
 public:
  // The parts must outlive it.
  Reporter(const api::AgentConfig& config, const LoadStatus& load, Coordinator& coordinator,
           const Clock& clock)
      : config_(config), load_(load), coordinator_(coordinator), clock_(clock) {}

  void note_save(const SaveResult& result);
  // Notes that more is being compiled since the last save, for which other pods may be waiting.
  void note_compiling() { compiling_ = true; }

  // `settled`: nothing changes in the directory at the moment, so new numbers are worth a report,
  // not only a new effect. `last`: the pod ends.
  void report(const frameworks::Evidence& evidence, bool settled, bool last, Patience patience);

  // Reports the load in place of a loader that could not reach the operator.
  [[nodiscard]] bool report_load(Patience patience) const;

 private:
  [[nodiscard]] api::EffectReport make(const frameworks::Evidence& evidence, bool last) const;

  const api::AgentConfig& config_;
  const LoadStatus& load_;
  Coordinator& coordinator_;
  const Clock& clock_;
  std::optional<frameworks::Evidence> sent_;
  std::string logged_effect_;
  std::optional<SaveResult> save_;  // not reported yet
  bool compiling_ = false;          // not reported yet either
  Monotonic not_before_{};          // for pauses after reports that nobody answered
};

}  // namespace compilecache::agent
