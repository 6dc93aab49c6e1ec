#pragma once

#include <optional>
#include <string>

#include "agent/control_directory.hpp"
#include "agent/coordinator.hpp"
#include "agent/save/save_attempt.hpp"
#include "base/clock.hpp"
#include "frameworks/effect.hpp"

namespace compilecache::agent {

// Tells the operator what the loaded archive was worth and what became of saves; only what has
// changed, and again later what did not get through. Not thread-safe.
class Reporter {
 public:
  // The parts must outlive it.
  Reporter(const api::AgentConfig& config, const LoadStatus& load, Coordinator& coordinator,
           const Clock& clock)
      : config_(config), load_(load), coordinator_(coordinator), clock_(clock) {}

  void note_save(const SaveResult& result);
  // More is being compiled since the last save: others may be waiting for that.
  void note_compiling() { compiling_ = true; }

  // `settled`: nothing changes in the directory at the moment, so that numbers are worth sending,
  // not only another verdict. `last`: the pod ends.
  void report(const frameworks::Evidence& evidence, bool settled, bool last, Patience patience);

  // For a loader that met no operator.
  [[nodiscard]] bool report_load(Patience patience) const;

 private:
  [[nodiscard]] api::EffectReport make(const frameworks::Evidence& evidence, bool last) const;

  const api::AgentConfig& config_;
  const LoadStatus& load_;
  Coordinator& coordinator_;
  const Clock& clock_;
  std::optional<frameworks::Evidence> sent_;
  std::string logged_effect_;
  std::optional<SaveResult> save_;  // not told yet
  bool compiling_ = false;          // nor this
  Monotonic not_before_{};          // after a report that met nobody
};

}  // namespace compilecache::agent
