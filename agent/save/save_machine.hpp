#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/control_directory.hpp"
#include "agent/save/save_result.hpp"
#include "api/agent_config.hpp"
#include "base/clock.hpp"

// What the saver does next: look at the cache directories, save, answer the app, tell the operator,
// wait; and, when the pod ends, save once more in the time that is left. It decides and does
// nothing: no I/O, no clock. The driver (save.cpp) carries out what step() says and comes back with
// what happened.
//
//   auto [state, actions] = step(settings, state, input, moment);
//
// Actions are carried out in their order. The last one is answered (End is not), the others are
// not.

namespace compilecache::agent::saver {

using std::chrono::milliseconds;

// Between looks: half a quiet period within these bounds. One look costs about 2 us a file (lstat).
// At the longest pause thousands of files cost less than 0.1% of a core; where there are more,
// pauses grow with what a look takes, up to a limit of their own.
inline constexpr milliseconds kFirstPause{1000};
inline constexpr milliseconds kShortestPause{100};
inline constexpr milliseconds kLongestPause{15'000};
inline constexpr int kPauseInLooks = 1000;
inline constexpr milliseconds kLongestPauseOfMany{60'000};
// Something new is saved after so many quiet periods even if it was never still: what keeps
// changing is left out of that save.
inline constexpr int kOverdueQuietPeriods = 20;
// One call to the operator, retries included, while the pod runs.
inline constexpr milliseconds kPatience{10'000};
inline constexpr milliseconds kReportPatience{3000};
// After SIGTERM, for what has to be told when the last save has used its time.
inline constexpr milliseconds kLastWords{1000};
inline constexpr milliseconds kLoadReportPause{30'000};
// How long an app that asks for a save waits for other pods' saves.
inline constexpr milliseconds kRequestedBusyPause{60'000};
// A request is often made in two steps, a file and then its time or content. Seen in between, the
// second step would be taken for another request.
inline constexpr milliseconds kRequestSettles{20};
// Pauses after failures double with each failure in a row, up to 32 times the first.
inline constexpr int kMostFailuresCounted = 6;

// --- what never changes ---------------------------------------------------------------------

struct Settings {
  milliseconds quiet_period{0};
  milliseconds first_quiet_period{0};  // until this pod has saved; 0: the same
  milliseconds at_termination{0};      // how long the pod's end may be delayed
  bool saves = true;
  bool once = false;      // one save and no more
  std::string why_not{};  // for the app, where the pod's mode or the policy limits saves
  // Others may be waiting for what this pod compiles.
  bool awaited = false;
  bool reports_load = false;  // the loader met no operator
};
Settings make_settings(const api::AgentConfig& config, const LoadStatus& load,
                       const SaverState& before);

// --- what is to be done ---------------------------------------------------------------------

// Tell the operator of the load. Answer with LoadReported.
struct ReportLoad {
  milliseconds patience{0};
};
// Look at the cache directories. Answer with Looked or LookFailed.
struct Look {
  enum class For {
    kChanges,  // what is new and what the load was worth, where anything has changed
    kAll,      // the same in any case
    kFiles,    // only what is new
    kEffect,   // only what the load was worth
  };
  For what = For::kAll;
  milliseconds quiet_period{0};  // tells what is unfinished from what is left over
};
// Tell the operator what the load was worth, as the last look says it, and what was noted; only
// what has changed.
struct ReportEffect {
  bool settled = false;    // nothing changes in the directory at the moment
  bool last = false;       // the pod ends
  bool compiling = false;  // more is being compiled since the last save
  milliseconds patience{0};
};
// When has the app asked for a save? Answer with RequestRead.
struct ReadRequest {};
// Try to save. Answer with Saved.
struct Save {
  bool asked = false;              // by the app
  bool final_save = false;         // the pod ends
  milliseconds notices_within{0};  // that more is being made, and tells it
};
// Answer the app; take its request away, if it is still the one of `asked`.
struct AnswerApp {
  SaveResult result;
  WallTime asked{};
};
// Into the log, and, where it is worth that, into the next report.
struct NoteResult {
  SaveResult result;
  bool for_operator = false;
};
struct Say {  // in the log
  std::string message;
  std::string reason{};
};
// What the last look saw and what follows from it, for who debugs.
struct Explain {
  bool anything_new = false, busy = false, still = false, save = false, asked = false;
};
// Answer with Paused.
struct Pause {
  milliseconds time{0};
  bool to_the_end = false;  // also when the pod's end is asked for meanwhile
};
// Until the app asks for something, the pod's end is asked for, or the time is over. Answer with
// Woken.
struct Wait {
  milliseconds time{0};
};
struct End {};  // all is done
using Action = std::variant<ReportLoad, Look, ReportEffect, ReadRequest, Save, AnswerApp,
                            NoteResult, Say, Explain, Pause, Wait, End>;

// --- what has happened ----------------------------------------------------------------------

struct Woken {};  // also at the start
struct LoadReported {
  enum class Told { kYes, kNo, kNothingThere };  // no loader has left its outcome yet
  Told told = Told::kYes;
};
struct View {
  bool anything_new = false;
  bool busy = false;  // something is unfinished
  WallTime last_activity{};
  bool operator==(const View&) const = default;
};
struct Looked {
  std::optional<View> view;          // nothing: as it was, or not asked for
  WallTime at{};                     // when the look began
  std::chrono::nanoseconds took{0};  // of the processor
};
struct LookFailed {
  WallTime at{};
};
struct RequestRead {
  std::optional<WallTime> asked;  // nothing: it does not ask
};
struct Saved {
  SaveResult result;
  int64_t saves = 0;     // committed by this pod so far
  WallTime looked_at{};  // when it looked at the directories last
};
struct Paused {
  bool whole = true;  // false: the pod's end came first
};
struct Broke {};  // an action threw
using Input =
    std::variant<Woken, LoadReported, Looked, LookFailed, RequestRead, Saved, Paused, Broke>;

struct Moment {
  Monotonic now{};
  std::optional<milliseconds> ending{};  // how long ago the pod's end was asked for
};

// --- the state ------------------------------------------------------------------------------

struct State {
  enum class Phase {
    kWaiting,
    kReportingLoad,
    kLooking,
    kReadingRequest,
    kSettling,      // the app has asked, and may be about to ask again
    kServing,       // saving because it asked
    kServingLater,  // other pods are saving
    kSaving,
    kTelling,  // looking once more, to tell what became of a save
    // the pod ends
    kLookingAtTheEnd,
    kSavingAtTheEnd,
    kPausingAtTheEnd,
    kTellingAtTheEnd,
    kLastLook,
    kEnded,
  };
  Phase phase = Phase::kWaiting;

  View seen;             // by the last look that looked for it
  WallTime looked_at{};  // by which it is reckoned how long it has been still
  std::chrono::nanoseconds look_takes{0};
  bool view_is_old = true;  // something was saved since it was made
  WallTime last_activity{};
  milliseconds interval = kFirstPause;  // of looks; doubles while nothing happens
  std::optional<Monotonic> new_since;   // when something that is not saved yet was seen first

  int64_t saves = 0;  // committed by this pod
  bool saving_is_over = false;
  std::string refusal;                 // the operator's, where that is why it is over
  bool blocked_until_changed = false;  // no save before the directory changes
  int failures = 0;                    // in a row
  Monotonic next_attempt{}, next_load_report{};
  bool load_reported = false;
  bool saved = false, told_compiling = false;  // since it was saved last

  std::optional<WallTime> answered;  // the app's last request that was
  WallTime serving{};                // the one that is being served
  Monotonic serve_until{};           // for as long others are waited for
  bool paused_at_end = false;        // the pause under way began when the pod was ending
  SaveResult result;                 // of the last try, while others are waited for

  // The driver lets no error hold up the pod's end.
  [[nodiscard]] bool ending() const { return phase >= Phase::kLookingAtTheEnd; }
};

// `before`: what an earlier saver of this pod has noted.
State begin(const Settings& settings, const SaverState& before);

struct Step {
  State state;
  std::vector<Action> actions;
};
Step step(const Settings& settings, State state, const Input& input, const Moment& moment);

// --- while a save is made -------------------------------------------------------------------

// Of the time for which the pod's end may be delayed; all of it while the pod runs.
milliseconds time_left(const Settings& settings, const Moment& moment);
// For one call to the operator.
milliseconds call_patience(const Settings& settings, const Moment& moment);
// The pod's end cannot wait for this save any longer.
bool gives_up(const Settings& settings, const Moment& moment);
// How soon, once this save is made, it is noticed and told that more is being made.
milliseconds notices_within(const Settings& settings, const State& state);

}  // namespace compilecache::agent::saver
