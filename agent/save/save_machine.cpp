#include "agent/save/save_machine.hpp"

#include <algorithm>
#include <utility>

namespace compilecache::agent::saver {
namespace {

using Next = SaveResult::Next;
using Phase = State::Phase;

// Half a quiet period, so that what begins after a long silence is noticed soon enough.
milliseconds longest_pause(milliseconds quiet, std::chrono::nanoseconds look_takes) {
  const auto usual = std::clamp(quiet / 2, kShortestPause, kLongestPause);
  const auto cheap = std::chrono::duration_cast<milliseconds>(look_takes * kPauseInLooks);
  return std::max(usual, std::min(cheap, kLongestPauseOfMany));
}

// One step under way. Each `on` handles one kind of input.
class Stepper {
 public:
  Stepper(const Settings& settings, State state, const Moment& moment)
      : settings_(settings), state_(std::move(state)), moment_(moment) {}

  Step finish() && { return {std::move(state_), std::move(actions_)}; }

  void on(const Woken&) {
    if (moment_.ending) {
      act(Say{"the pod ends"});
      return look(Phase::kLookingAtTheEnd, Look::For::kFiles);
    }
    if (!settings_.reports_load || state_.load_reported || moment_.now < state_.next_load_report) {
      return look_around();
    }
    state_.next_load_report = moment_.now + kLoadReportPause;
    state_.phase = Phase::kReportingLoad;
    act(ReportLoad{kReportPatience});
  }

  void on(const LoadReported& report) {
    state_.load_reported = report.told == LoadReported::Told::kYes;
    if (report.told == LoadReported::Told::kNothingThere) state_.next_load_report = {};
    look_around();
  }

  void on(const Looked& looked) {
    state_.looked_at = looked.at;
    if (looked.view) take(*looked.view);
    switch (state_.phase) {
      case Phase::kTelling:
      case Phase::kTellingAtTheEnd:
        act(ReportEffect{true, false, false,
                         std::min(call_patience(settings_, moment_), kReportPatience)});
        return told();
      case Phase::kLookingAtTheEnd:
        return save_at_the_end();
      case Phase::kLastLook:
        // Where nobody answers, the report is not worth more of the pod's time.
        act(ReportEffect{true, true, false,
                         std::clamp(time_left(settings_, moment_), kLastWords, kReportPatience)});
        return end();
      default:
        state_.look_takes = looked.took;
        note_activity();
        act(ReportEffect{still(), false, note_compiling(), kReportPatience});
        state_.phase = Phase::kReadingRequest;
        act(ReadRequest{});
    }
  }

  void on(const LookFailed& failed) {
    state_.looked_at = failed.at;
    if (state_.phase == Phase::kLooking) return wait();
    if (state_.phase == Phase::kTelling || state_.phase == Phase::kTellingAtTheEnd) return told();
    end();
  }

  void on(const RequestRead& request) {
    if (state_.phase == Phase::kSettling) {
      state_.serving = request.asked.value_or(state_.serving);
      return serve();
    }
    const bool asked = request.asked && request.asked != state_.answered;
    const bool save = !asked && should_save();
    act(Explain{state_.seen.anything_new, state_.seen.busy, still(), save, asked});
    if (asked) {
      state_.serving = *request.asked;
      state_.phase = Phase::kSettling;
      return pause(kRequestSettles);
    }
    if (save) return try_to_save(Phase::kSaving);
    wait();
  }

  void on(const Saved& saved) {
    state_.saves = saved.saves;
    state_.looked_at = saved.looked_at;
    const SaveResult& result = saved.result;
    if (state_.phase == Phase::kSavingAtTheEnd) return saved_at_the_end(result);
    const bool busy = state_.phase == Phase::kServing && result.reason == "busy" &&
                      moment_.now < state_.serve_until;
    if (busy) {
      state_.result = result;
      state_.phase = Phase::kServingLater;
      return pause(result.retry_after);
    }
    saved_while_it_runs(result);
  }

  void on(const Paused& paused) {
    const bool go_on =
        state_.paused_at_end ? time_left(settings_, moment_) > milliseconds(0) : paused.whole;
    switch (state_.phase) {
      case Phase::kSettling:
        return act(ReadRequest{});
      case Phase::kServingLater:
        if (go_on) return try_to_save(Phase::kServing);
        state_.phase = Phase::kServing;
        return saved_while_it_runs(std::exchange(state_.result, {}));
      default:
        try_to_save(Phase::kSavingAtTheEnd);
    }
  }

  void on(const Broke&) {
    state_.interval = kLongestPause;
    wait();
  }

 private:
  void act(Action action) { actions_.push_back(std::move(action)); }

  void look(Phase phase, Look::For what) {
    state_.phase = phase;
    act(Look{what, quiet_period()});
  }

  // Unfinished units age.
  void look_around() {
    const bool all = state_.view_is_old || state_.seen.busy;
    look(Phase::kLooking, all ? Look::For::kAll : Look::For::kChanges);
  }

  void take(const View& view) {
    state_.seen = view;
    state_.view_is_old = false;
    if (!view.anything_new) state_.new_since.reset();
    if (view.anything_new && !state_.new_since) state_.new_since = moment_.now;
  }

  void note_activity() {
    if (state_.seen.last_activity == state_.last_activity) {
      state_.interval = std::min(state_.interval * 2, longest_pause());
      return;
    }
    state_.last_activity = state_.seen.last_activity;
    state_.interval = kFirstPause;
    state_.blocked_until_changed = false;
  }

  // Pods that wait for this one's archive have to know that its last save was not all.
  bool note_compiling() {
    if (!settings_.awaited || !state_.saved || state_.reported_compiling) return false;
    state_.reported_compiling = state_.seen.anything_new || state_.seen.busy;
    return state_.reported_compiling;
  }

  [[nodiscard]] milliseconds quiet_period() const {
    const bool first = settings_.first_quiet_period.count() > 0 && state_.saves == 0;
    return first ? settings_.first_quiet_period : settings_.quiet_period;
  }
  [[nodiscard]] milliseconds longest_pause() const {
    return saver::longest_pause(quiet_period(), state_.look_takes);
  }
  [[nodiscard]] milliseconds quiet_for() const {
    return std::chrono::duration_cast<milliseconds>(state_.looked_at - state_.seen.last_activity);
  }
  // A change in the future (the clock was set back) does not count.
  [[nodiscard]] bool still() const {
    return quiet_for() >= quiet_period() || quiet_for() < -quiet_period();
  }
  [[nodiscard]] bool overdue() const {
    return state_.new_since &&
           moment_.now - *state_.new_since >= quiet_period() * kOverdueQuietPeriods;
  }
  [[nodiscard]] bool has_to_save() const {
    return state_.seen.anything_new && !state_.saving_is_over && !state_.blocked_until_changed;
  }
  [[nodiscard]] bool should_save() const {
    return has_to_save() && ((!state_.seen.busy && still()) || overdue()) &&
           moment_.now >= state_.next_attempt;
  }

  void wait() {
    milliseconds time = std::min(state_.interval, longest_pause());
    if (has_to_save()) {
      const auto left = quiet_period() - quiet_for();
      if (left > milliseconds(0)) time = std::min(time, left);
      if (state_.next_attempt > moment_.now) {
        time = std::min(time, std::chrono::ceil<milliseconds>(state_.next_attempt - moment_.now));
      }
    }
    state_.phase = Phase::kWaiting;
    act(Wait{std::max(time, kShortestPause)});
  }

  // Between two tries: while the pod runs its end is a reason to stop waiting; after that it is
  // not.
  void pause(milliseconds time) {
    state_.paused_at_end = moment_.ending.has_value();
    act(Pause{state_.paused_at_end ? std::min(time, kFirstPause) : time, state_.paused_at_end});
  }

  void try_to_save(Phase phase) {
    const bool asked = phase == Phase::kServing;
    state_.phase = phase;
    act(Save{asked, moment_.ending.has_value(), notices_within(settings_, state_)});
  }

  // The app asks for a save: without waiting for silence, but for another pod's save. Its file
  // stays until it is answered, so that a saver which was killed meanwhile answers it in the end.
  void serve() {
    if (!state_.saving_is_over) {
      state_.serve_until = moment_.now + kRequestedBusyPause;
      return try_to_save(Phase::kServing);
    }
    SaveResult result;
    result.reason = "saving_is_off";
    result.message = "saving is off: " +
                     (settings_.why_not.empty()
                          ? "the operator refused an earlier save for good: " + state_.refusal
                          : settings_.why_not);
    answer_app(result);
    wait();
  }

  void answer_app(const SaveResult& result) {
    act(AnswerApp{result, state_.serving});
    state_.answered = state_.serving;
  }

  void saved_while_it_runs(const SaveResult& result) {
    // The app waits for it; the operator's statistics do not.
    if (state_.phase == Phase::kServing) answer_app(result);
    if (!conclude(result)) return wait();
    look(Phase::kTelling, Look::For::kEffect);
  }

  // Returns whether to report the result to the operator now.
  bool conclude(const SaveResult& result) {
    const bool success = result.outcome == api::Outcome::kSuccess;
    state_.view_is_old = true;
    state_.new_since.reset();
    if (success) {
      state_.saved = true;
      state_.reported_compiling = false;
    }
    if (result.never_again) state_.refusal = result.reason;
    state_.saving_is_over =
        state_.saving_is_over || result.never_again || (settings_.once && success);
    state_.blocked_until_changed = result.next == Next::kWhenChanged;
    plan_next_attempt(result);
    const bool trying_again = result.reason == "busy" || result.reason == "operator_unreachable";
    const bool tell =
        (!trying_again || moment_.ending) && result.outcome != api::Outcome::kDoesNotExist;
    act(NoteResult{result, tell});
    return tell;
  }

  void plan_next_attempt(const SaveResult& result) {
    if (result.next != Next::kRetry) {
      state_.failures = 0;
      return;
    }
    // Another pod's save is no failure.
    state_.failures =
        result.reason == "busy" ? 0 : std::min(state_.failures + 1, kMostFailuresCounted);
    const int doubled = 1 << std::max(state_.failures - 1, 0);
    state_.next_attempt = moment_.now + result.retry_after * doubled;
  }

  // A save was reported to the operator, or could not be.
  void told() {
    if (state_.phase == Phase::kTelling) return wait();
    last_look();
  }

  // Runs after SIGTERM: the app has ended, so nothing more will be compiled.
  void save_at_the_end() {
    if (state_.saving_is_over || !state_.seen.anything_new) return last_look();
    if (time_left(settings_, moment_) > kLastWords) return try_to_save(Phase::kSavingAtTheEnd);
    // There is too little time for a save: it would be cancelled, perhaps with the lock held.
    SaveResult result;
    result.outcome = api::Outcome::kError;
    result.reason = "out_of_time";
    result.message =
        "there is something new, and no time for a last save: let the pod have a longer "
        "terminationGracePeriodSeconds and spec.save.atTermination, or a shorter quiet period";
    act(NoteResult{result, true});
    last_look();
  }

  void saved_at_the_end(SaveResult result) {
    const bool again = result.next == Next::kRetry && result.reason != "out_of_time" &&
                       time_left(settings_, moment_) > result.retry_after + kLastWords;
    if (again) {
      act(Say{"trying once more before the end", result.reason});
      state_.phase = Phase::kPausingAtTheEnd;
      return act(Pause{result.retry_after, true});
    }
    if (result.reason == "busy") {
      // Others were saving for as long as the pod's end could wait.
      result.outcome = api::Outcome::kError;
      result.reason = "out_of_time";
      result.message = "there is something new that is not saved: " + result.message;
    }
    if (!conclude(result)) return last_look();
    look(Phase::kTellingAtTheEnd, Look::For::kEffect);
  }

  void last_look() { look(Phase::kLastLook, Look::For::kEffect); }

  void end() {
    state_.phase = Phase::kEnded;
    act(End{});
  }

  const Settings& settings_;
  State state_;
  const Moment& moment_;
  std::vector<Action> actions_;
};

}  // namespace

Settings make_settings(const api::AgentConfig& config, const LoadStatus& load,
                       const SaverState& before) {
  Settings settings;
  settings.quiet_period = config.save.quiet_period;
  settings.first_quiet_period = config.first_quiet_period;
  settings.at_termination = config.save.at_termination;
  settings.once = config.save.policy == api::SavePolicy::kOnce;
  // Once: an archive loaded under exactly this key is the one save.
  settings.saves = config.mode != api::Mode::kReadOnly &&
                   config.save.policy != api::SavePolicy::kNever &&
                   !(settings.once && config.mode != api::Mode::kRefresh && load.loaded() &&
                     load.match == api::Match::kExact);
  if (config.mode == api::Mode::kReadOnly) {
    settings.why_not = "the pod's mode is ReadOnly";
  } else if (config.save.policy != api::SavePolicy::kOnChange) {
    settings.why_not = "spec.save.policy is " + std::string(api::to_string(config.save.policy));
  }
  settings.awaited = config.load.wait_for_first != milliseconds(0) && !load.loaded();
  settings.reports_load =
      !load.reported && !before.load_reported && !config.operator_address.empty();
  return settings;
}

State begin(const Settings& settings, const SaverState& before) {
  State state;
  state.saves = before.saves;
  state.saving_is_over = !settings.saves;
  return state;
}

Step step(const Settings& settings, State state, const Input& input, const Moment& moment) {
  Stepper stepper(settings, std::move(state), moment);
  std::visit([&](const auto& what) { stepper.on(what); }, input);
  return std::move(stepper).finish();
}

milliseconds time_left(const Settings& settings, const Moment& moment) {
  return settings.at_termination - moment.ending.value_or(milliseconds(0));
}

milliseconds call_patience(const Settings& settings, const Moment& moment) {
  if (!moment.ending) return kPatience;
  return std::clamp(time_left(settings, moment) - kLastWords, kShortestPause, kPatience);
}

bool gives_up(const Settings& settings, const Moment& moment) {
  return moment.ending && time_left(settings, moment) <= kLastWords;
}

milliseconds notices_within(const Settings& settings, const State& state) {
  return longest_pause(settings.quiet_period, state.look_takes) + kReportPatience;
}

}  // namespace compilecache::agent::saver
