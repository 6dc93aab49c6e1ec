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

// Decides what the saver does next: look at the cache directories, save, answer the app, report to
// the operator, wait. When the pod ends, it saves once more in the time that is left. It only
// decides: no I/O, no clock. The driver (save.cpp) carries out what step() says and returns what
// happened.
//
//   auto [next, actions] = step(settings, state, input, moment);
//
// Actions are carried out in their order. The last one is answered with an input, unless it is End.

namespace compilecache::agent::saver {

using std::chrono::milliseconds;

// The pause between looks is half a quiet period, within these bounds. One look costs about 2 us a
// file (lstat). At the longest pause thousands of files cost less than 0.1% of a core; where there
// are more, pauses grow with what a look takes, up to a limit of their own.
inline constexpr milliseconds kFirstPause{1000};
inline constexpr milliseconds kShortestPause{100};
inline constexpr milliseconds kLongestPause{15'000};
inline constexpr int kPauseInLooks = 1000;
inline constexpr milliseconds kLongestPauseOfMany{60'000};
// New files are saved after so many quiet periods even if the directory was never still; files that
// keep changing are left out of that save.
inline constexpr int kOverdueQuietPeriods = 20;
// One call to the operator, retries included, while the pod runs.
inline constexpr milliseconds kPatience{10'000};
inline constexpr milliseconds kReportPatience{3000};
// After SIGTERM: the time for a last report when the last save has used all of its own.
inline constexpr milliseconds kLastWords{1000};
inline constexpr milliseconds kLoadReportPause{30'000};
// How long a save that the app asked for waits for other pods' saves.
inline constexpr milliseconds kRequestedBusyPause{60'000};
// A request is often made in two steps, a file and then its time or content. Seen in between, the
// second step would be taken for another request.
inline constexpr milliseconds kRequestSettles{20};
// Pauses after failures double with each failure in a row, up to this many.
inline constexpr int kMostFailuresCounted = 6;

// --- what never changes ---------------------------------------------------------------------

struct Settings {
  milliseconds quiet_period{0};
  milliseconds first_quiet_period{0};  // until this pod has saved; 0: the same
  milliseconds at_termination{0};      // how long the pod's end may be delayed
  bool saves = true;
  bool once = false;      // one save and no more
  std::string why_not{};  // the answer to the app where the pod's mode or the policy limits saves
  // Others may be waiting for what this pod compiles.
  bool awaited = false;
  bool reports_load = false;  // the loader could not reach the operator
};
Settings make_settings(const api::AgentConfig& config, const LoadStatus& load,
                       const SaverState& before);

// --- what is to be done ---------------------------------------------------------------------

// Report the load to the operator. Answer with LoadReported.
struct ReportLoad {
  milliseconds patience{0};
};
// Look at the cache directories. Answer with Looked or LookFailed.
struct Look {
  enum class For {
    kChanges,  // what is new and the effect of the load, where anything has changed
    kAll,      // both in any case
    kFiles,    // only what is new
    kEffect,   // only the effect of the load
  };
  For what = For::kAll;
  milliseconds quiet_period{0};  // unfinished units that were still for so long are left over
};
// Report to the operator the effect of the load, as judged at the last look, and noted results;
// only what has changed.
struct ReportEffect {
  bool settled = false;    // nothing changes in the directory at the moment
  bool last = false;       // the pod ends
  bool compiling = false;  // more is being compiled since the last save
  milliseconds patience{0};
};
// Find out whether and when the app has asked for a save. Answer with RequestRead.
struct ReadRequest {};
// Try to save. Answer with Saved.
struct Save {
  bool asked = false;              // by the app
  bool final_save = false;         // the pod ends
  milliseconds notices_within{0};  // that more is being made, and reports it
};
// Answer the app, and remove its request if it is still the one of `asked`.
struct AnswerApp {
  SaveResult result;
  WallTime asked{};
};
// Log the result, and, with `for_operator`, put it into the next report.
struct NoteResult {
  SaveResult result;
  bool for_operator = false;
};
struct Say {  // in the log
  std::string message;
  std::string reason{};
};
// Log for debugging what the last look found and what follows from it.
struct Explain {
  bool anything_new = false, busy = false, still = false, save = false, asked = false;
};
// Answer with Paused.
struct Pause {
  milliseconds time{0};
  bool to_the_end = false;  // not shortened when the pod's end is requested
};
// Wait until the app asks for something, the pod's end is requested, or the time is over. Answer
// with Woken.
struct Wait {
  milliseconds time{0};
};
struct End {};  // all is done
using Action = std::variant<ReportLoad, Look, ReportEffect, ReadRequest, Save, AnswerApp,
                            NoteResult, Say, Explain, Pause, Wait, End>;

// --- what has happened ----------------------------------------------------------------------

struct Woken {};  // also at the start
struct LoadReported {
  enum class Told { kYes, kNo, kNothingThere };  // the last: no loader has written its outcome
  Told told = Told::kYes;
};
struct View {
  bool anything_new = false;
  bool busy = false;  // something is unfinished
  WallTime last_activity{};
  bool operator==(const View&) const = default;
};
struct Looked {
  std::optional<View> view;          // nothing: unchanged, or not asked for
  WallTime at{};                     // when the look began
  std::chrono::nanoseconds took{0};  // processor time
};
struct LookFailed {
  WallTime at{};
};
struct RequestRead {
  std::optional<WallTime> asked;  // nothing: it has not asked
};
struct Saved {
  SaveResult result;
  int64_t saves = 0;     // committed by this pod so far
  WallTime looked_at{};  // when it looked at the directories last
};
struct Paused {
  bool whole = true;  // false: the pod's end was requested first
};
struct Broke {};  // an action threw
using Input =
    std::variant<Woken, LoadReported, Looked, LookFailed, RequestRead, Saved, Paused, Broke>;

struct Moment {
  Monotonic now{};
  std::optional<milliseconds> ending{};  // how long ago the pod's end was requested
};

// --- the state ------------------------------------------------------------------------------

struct State {
  enum class Phase {
    kWaiting,
    kReportingLoad,
    kLooking,
    kReadingRequest,
    kSettling,      // the app has asked, and may be changing its request
    kServing,       // saving because it asked
    kServingLater,  // other pods are saving
    kSaving,
    kTelling,  // looking once more, to report the outcome of a save
    // the pod ends
    kLookingAtTheEnd,
    kSavingAtTheEnd,
    kPausingAtTheEnd,
    kTellingAtTheEnd,
    kLastLook,
    kEnded,
  };
  Phase phase = Phase::kWaiting;

  View seen;             // by the last look that asked for a view
  WallTime looked_at{};  // from which the time of stillness is counted
  std::chrono::nanoseconds look_takes{0};
  bool view_is_old = true;  // something was saved since it was made
  WallTime last_activity{};
  milliseconds interval = kFirstPause;  // of looks; doubles while nothing happens
  std::optional<Monotonic> new_since;   // when something that is not saved yet was seen first

  int64_t saves = 0;  // committed by this pod
  bool saving_is_over = false;
  std::string refusal;                 // the operator's reason, where it ended saving
  bool blocked_until_changed = false;  // no save before the directory changes
  int failures = 0;                    // in a row
  Monotonic next_attempt{}, next_load_report{};
  bool load_reported = false;
  bool saved = false, reported_compiling = false;  // since the last save

  std::optional<WallTime> answered;  // the app's last request that was answered
  WallTime serving{};                // the one that is being served
  Monotonic serve_until{};           // until then it waits for other pods' saves
  bool paused_at_end = false;        // the pause under way began when the pod was ending
  SaveResult result;                 // of the last try, while it waits for other pods' saves

  // Whether the pod is ending; then no error may hold it up.
  [[nodiscard]] bool ending() const { return phase >= Phase::kLookingAtTheEnd; }
};

// `before`: the state that an earlier saver of this pod has written.
State begin(const Settings& settings, const SaverState& before);

struct Step {
  State state;
  std::vector<Action> actions;
};
Step step(const Settings& settings, State state, const Input& input, const Moment& moment);

// --- while a save is made -------------------------------------------------------------------

// The rest of the time for which the pod's end may be delayed; all of it while the pod runs.
milliseconds time_left(const Settings& settings, const Moment& moment);
// How long one call to the operator may take.
milliseconds call_patience(const Settings& settings, const Moment& moment);
// Whether the pod's end cannot wait for this save any longer.
bool gives_up(const Settings& settings, const Moment& moment);
// How soon after this save the saver notices and reports that more is being compiled.
milliseconds notices_within(const Settings& settings, const State& state);

}  // namespace compilecache::agent::saver
