#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/save/save_machine.hpp"

// Drives the saver's machine by hand, step by step, for its tests.

namespace compilecache::agent::saver {

using std::chrono::seconds;

inline constexpr milliseconds kQuiet{30'000};

inline Settings usual() {
  Settings settings;
  settings.quiet_period = kQuiet;
  settings.at_termination = seconds(15);
  return settings;
}

inline SaveResult saved() {
  SaveResult result;
  result.outcome = api::Outcome::kSuccess;
  return result;
}
inline SaveResult not_saved(const std::string& reason, SaveResult::Next next,
                            milliseconds retry_after = {}) {
  SaveResult result;
  result.outcome = reason == "busy" ? api::Outcome::kSkipped : api::Outcome::kError;
  result.reason = reason;
  result.message = "because of " + reason;
  result.next = next;
  result.retry_after = retry_after;
  return result;
}
inline SaveResult busy(milliseconds retry_after = seconds(5)) {
  return not_saved("busy", SaveResult::Next::kRetry, retry_after);
}
inline SaveResult unanswered(milliseconds retry_after = seconds(2)) {
  return not_saved("operator_unreachable", SaveResult::Next::kRetry, retry_after);
}

inline bool is_answered(const Action& action) {
  return std::holds_alternative<ReportLoad>(action) || std::holds_alternative<Look>(action) ||
         std::holds_alternative<ReadRequest>(action) || std::holds_alternative<Save>(action) ||
         std::holds_alternative<Pause>(action) || std::holds_alternative<Wait>(action);
}

// Drives the machine by hand; time stands still unless a test moves it.
struct Machine {
  explicit Machine(Settings with = usual(), const SaverState& before = {})
      : settings(std::move(with)), state(begin(settings, before)) {}

  Settings settings;
  State state;
  Monotonic now{std::chrono::hours(1)};
  WallTime wall{std::chrono::hours(24 * 365 * 50)};
  std::optional<Monotonic> ends;  // since when
  std::vector<Action> actions;

  [[nodiscard]] Moment moment() const {
    if (!ends) return {now, std::nullopt};
    return {now, std::chrono::duration_cast<milliseconds>(now - *ends)};
  }
  Machine& take(const Input& input) {
    Step next = step(settings, state, input, moment());
    state = std::move(next.state);
    actions = std::move(next.actions);
    EXPECT_FALSE(actions.empty()) << "the driver would have nothing to come back with";
    for (size_t i = 0; i < actions.size(); ++i) {
      const bool last = i + 1 == actions.size();
      const bool ended = std::holds_alternative<End>(actions[i]);
      EXPECT_EQ(is_answered(actions[i]) || ended, last) << "action " << actions[i].index();
    }
    return *this;
  }
  template <typename T>
  [[nodiscard]] std::optional<T> find() const {
    for (const Action& action : actions) {
      if (const T* found = std::get_if<T>(&action)) return *found;
    }
    return std::nullopt;
  }
  template <typename T>
  [[nodiscard]] bool has() const {
    return find<T>().has_value();
  }

  Machine& pass(Duration time) {
    now += time;
    wall += std::chrono::duration_cast<WallTime::duration>(time);
    return *this;
  }
  Machine& end_pod() {
    ends = now;
    return *this;
  }
  // Something new, made so long ago.
  [[nodiscard]] View made(milliseconds ago) const { return {true, false, wall - ago}; }
  [[nodiscard]] View unfinished(milliseconds ago) const { return {true, true, wall - ago}; }
  [[nodiscard]] View nothing_new() const { return {false, false, wall - std::chrono::hours(1)}; }

  // From one wait to the decision after the next look.
  Machine& look(const std::optional<View>& view, const std::optional<WallTime>& asked = {}) {
    take(Woken{}).take(Looked{view, wall});
    return take(RequestRead{asked});
  }
  Machine& answer(const SaveResult& result, int64_t saves) {
    return take(Saved{result, saves, wall});
  }
  Machine& answer(const SaveResult& result) {
    return answer(result, state.saves + (result.outcome == api::Outcome::kSuccess ? 1 : 0));
  }
  // A save that is due, and its result.
  Machine& save(const SaveResult& result) {
    look(made(settings.quiet_period));
    EXPECT_TRUE(has<Save>());
    return answer(result);
  }
  // The step after a save is reported.
  Machine& tell() {
    EXPECT_EQ(find<Look>().value_or(Look{}).what, Look::For::kEffect);
    return take(Looked{std::nullopt, wall});
  }
  [[nodiscard]] milliseconds waits() const {
    return find<Wait>().value_or(Wait{milliseconds(-1)}).time;
  }
};

}  // namespace compilecache::agent::saver
