#include "agent/save/save.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "agent/files.hpp"
#include "agent/pod.hpp"
#include "agent/save/reporter.hpp"
#include "agent/save/save_attempt.hpp"
#include "archive/beneath.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;
using Next = SaveResult::Next;

// One look costs about 2 us a file (lstat). At the longest pause thousands of files cost less than
// 0.1% of a core; where there are more, pauses grow with what a look takes, up to a limit.
constexpr milliseconds kShortestPause{100};
// Something new is saved after so many quiet periods even if it was never still: what keeps
// changing is left out of that save.
constexpr int kOverdueQuietPeriods = 20;
constexpr milliseconds kLongestPause{15'000};
constexpr int kPauseInLooks = 1000;
constexpr milliseconds kLongestPauseOfMany{60'000};
constexpr milliseconds kFirstPause{1000};
// One call to the operator, retries included, while the pod runs.
constexpr Patience kPatience{10'000};
constexpr Patience kReportPatience{3000};
// After SIGTERM, for what has to be told when the last save has used its time.
constexpr milliseconds kLastWords{1000};
constexpr milliseconds kLoadReportPause{30'000};
constexpr milliseconds kRequestedBusyPause{60'000};
// A request is often made in two steps, a file and then its time or content. Seen in between, the
// second step would be taken for another request.
constexpr milliseconds kRequestSettles{20};

// Of this thread: what others do to the machine is not what a look costs.
std::chrono::nanoseconds processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// A watch on the control directory, so that an app that asks for a save need not wait for our next
// look.
class RequestWatch {
 public:
  explicit RequestWatch(const std::string& directory)
      : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    const archive::Fd folder = archive::open_folder(directory, O_RDONLY);
    if (fd_ < 0 || !folder.valid()) return;
    const std::string path = "/proc/self/fd/" + std::to_string(folder.get());
    ::inotify_add_watch(fd_, path.c_str(), IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE);
  }
  ~RequestWatch() {
    if (fd_ >= 0) ::close(fd_);
  }
  RequestWatch(const RequestWatch&) = delete;
  RequestWatch& operator=(const RequestWatch&) = delete;

  // Until something happens there, `other` is readable, or the time is over.
  void wait(int other, milliseconds time) const {
    pollfd ready[2] = {{other, POLLIN, 0}, {fd_, POLLIN, 0}};
    ::poll(ready, 2, static_cast<int>(time.count()));
    char events[4096];
    while (fd_ >= 0 && ::read(fd_, events, sizeof(events)) > 0) {
    }
  }

 private:
  int fd_;
};

class Saver {
 public:
  Saver(const api::AgentConfig& config, const Process& process)
      : config_(config),
        node_(node_name()),
        clock_(process.clock),
        random_(process.random),
        termination_(process.termination),
        control_(config.control_path),
        load_(control_.read_status().value_or(LoadStatus{})),
        coordinator_(make_coordinator(config, node_, clock_, random_,
                                      [this](milliseconds time) { return pause(time); })),
        watched_(config, load_, control_, clock_),
        reporter_(config_, load_, *coordinator_, clock_),
        state_(control_.read_saver_state()) {
    if (const auto made = make_open_directory(config.control_path); !made) {
      log_warn("cannot make the control directory", {{"error", made.error().message}});
    }
    recall_head();
    // Once: what was loaded under this very key is the one save.
    saving_is_over_ = config_.mode == "ReadOnly" || config_.save_policy == "Never" ||
                      (config_.save_policy == "Once" && config_.mode != "Refresh" &&
                       (load_.loaded() && load_.match == api::Match::kExact));
  }

  void run() {
    log_info("watching", {{"loaded", load_.loaded() ? load_.archive : "nothing"},
                          {"saves", saving_is_over_ ? "no" : "yes"}});
    // Not for a single save: the kernel takes up to 30 ms to give a watch up.
    const RequestWatch requests(config_.control_path);
    while (!termination_.requested()) {
      try {
        step();
      } catch (const std::exception& error) {
        log_error("an error that nobody expected; going on", {{"error", error.what()}});
        interval_ = kLongestPause;
      }
      requests.wait(termination_.fd(), next_pause());
    }
    finish();
  }

  bool save_now() {
    const SaveResult result = attempt();
    log_result(result);
    return result.outcome != api::Outcome::kError && result.reason != "busy";
  }

 private:
  // What the current archive is taken to hold: what this saver made before it was killed, else what
  // was loaded, if it was this pod's own.
  void recall_head() {
    std::string digest = state_.head;
    if (digest.empty() && load_.loaded() && load_.match == api::Match::kExact) {
      digest = load_.manifest_digest;
    }
    if (digest.empty()) return;
    if (auto head = read_head(config_.store_path, digest)) {
      head_ = std::move(*head);
      head_.ours = digest == load_.manifest_digest || state_.saves > 0;
    } else {
      log_info("what the archive holds is not known; the operator will say",
               {{"error", head.error().message}});
    }
  }

  void step() {
    report_load();
    const auto before = processor_time();
    if (const auto looked = look(); !looked) {
      log_warn("cannot look at the cache", {{"error", looked.error().message}});
      return;
    }
    look_takes_ = processor_time() - before;
    think();
    note_activity();
    note_compiling();
    reporter_.report(evidence_, still(), false, kReportPatience);
    const auto asked = request_time();
    const bool serve = asked && asked != answered_;
    const bool save = !serve && should_save();
    log_look(serve, save);
    if (serve) serve_request(*asked);
    if (save) conclude(attempt());
  }

  void log_look(bool serve, bool save) const {
    const auto word = [](bool yes) { return yes ? "yes" : "no"; };
    log_debug("looked", {{"new", word(seen_.anything_new)},
                         {"busy", word(seen_.busy)},
                         {"still", word(still())},
                         {"save", word(save)},
                         {"asked", word(serve)}});
  }

  // Whether there is something to think about, as far as is known. What is unfinished ages.
  [[nodiscard]] bool has_to_think() const {
    return watched_.changed() || view_is_old_ || seen_.busy;
  }

  // While nothing changes nothing is kept, and a look costs hardly more than the system calls.
  Status look() {
    if (has_to_think()) return watched_.look();
    const auto differs = watched_.differs();
    if (!differs) return unexpected(differs.error());
    return *differs ? watched_.look() : Status{};
  }

  void think() {
    if (has_to_think()) {
      see();
      evidence_ = watched_.judge();
      view_is_old_ = false;
    }
    if (!watched_.changed()) watched_.forget();
  }

  void see() {
    watched_.set_quiet_period(quiet_period());
    const SaveView view = watched_.plan(head_.held, state_.saved_at);
    seen_ = {!view.files.empty(), !view.busy.empty(), view.last_activity};
    if (!seen_.anything_new) new_since_.reset();
    if (seen_.anything_new && !new_since_) new_since_ = clock_.monotonic();
  }

  void note_activity() {
    if (seen_.last_activity == last_activity_) {
      interval_ = std::min(interval_ * 2, longest_pause());
      return;
    }
    last_activity_ = seen_.last_activity;
    interval_ = kFirstPause;
    blocked_until_changed_ = false;
  }

  // Pods that wait for this one's archive have to know that its last save was not all.
  void note_compiling() {
    if (config_.wait_for_first_ms == 0 || load_.loaded() || !saved_ || told_compiling_) return;
    if (!seen_.anything_new && !seen_.busy) return;
    told_compiling_ = true;
    reporter_.note_compiling();
  }

  [[nodiscard]] milliseconds quiet_period() const {
    const bool first = config_.first_quiet_period_ms > 0 && state_.saves == 0;
    return milliseconds(first ? config_.first_quiet_period_ms : config_.quiet_period_ms);
  }

  // Half a quiet period, so that what begins after a long silence is noticed soon enough.
  [[nodiscard]] milliseconds longest_pause() const { return longest_pause(quiet_period()); }
  [[nodiscard]] milliseconds longest_pause(milliseconds quiet) const {
    const auto usual = std::clamp(quiet / 2, kShortestPause, kLongestPause);
    const auto cheap = std::chrono::duration_cast<milliseconds>(look_takes_ * kPauseInLooks);
    return std::max(usual, std::min(cheap, kLongestPauseOfMany));
  }

  [[nodiscard]] milliseconds quiet_for() const {
    return std::chrono::duration_cast<milliseconds>(watched_.looked_at() - seen_.last_activity);
  }
  // A change in the future (the clock was set back) is none.
  [[nodiscard]] bool still() const {
    return quiet_for() >= quiet_period() || quiet_for() < -quiet_period();
  }

  [[nodiscard]] bool should_save() const {
    return !saving_is_over_ && !blocked_until_changed_ && seen_.anything_new &&
           ((!seen_.busy && still()) || overdue()) && clock_.monotonic() >= next_attempt_;
  }
  [[nodiscard]] bool overdue() const {
    const milliseconds most = quiet_period() * kOverdueQuietPeriods;
    return new_since_ && clock_.monotonic() - *new_since_ >= most;
  }

  [[nodiscard]] milliseconds next_pause() const {
    milliseconds pause = std::min(interval_, longest_pause());
    const auto now = clock_.monotonic();
    if (seen_.anything_new && !saving_is_over_ && !blocked_until_changed_) {
      const auto left = quiet_period() - quiet_for();
      if (left > milliseconds(0)) pause = std::min(pause, left);
      if (next_attempt_ > now) {
        pause = std::min(pause, std::chrono::ceil<milliseconds>(next_attempt_ - now));
      }
    }
    return std::max(pause, kShortestPause);
  }

  SaveResult attempt(bool asked = false) {
    // Once this save is made, what follows is noticed by the usual period.
    const milliseconds notices = longest_pause(milliseconds(config_.quiet_period_ms));
    const SaveLimits limits{[this] { return patience(); },
                            [this] { return termination_.requested() && left() <= kLastWords; },
                            termination_.requested(), asked, notices + kReportPatience};
    const SaveParts parts{
        config_,  node_,  *coordinator_, watched_,
        control_, clock_, random_,       load_.loaded() ? load_.manifest_digest : ""};
    try {
      return save_once(parts, head_, state_, limits);
    } catch (const std::bad_alloc&) {
      return failed(
          "the memory that the container's limit leaves does not do for a save; give the saver "
          "more (resources.saver in the operator's settings, or the namespace's LimitRange), or "
          "lower spec.compression.level and .window");
    } catch (const std::exception& error) {
      return failed(error.what());
    }
  }

  static SaveResult failed(const std::string& message) {
    SaveResult result;
    result.outcome = api::Outcome::kError;
    result.reason = "internal";
    result.message = message;
    result.next = Next::kWhenChanged;
    return result;
  }

  void conclude(const SaveResult& result) {
    view_is_old_ = true;
    new_since_.reset();
    log_result(result);
    if (result.outcome == api::Outcome::kSuccess) {
      saved_ = true;
      told_compiling_ = false;
    }
    if (result.never_again) refusal_ = result.reason;
    saving_is_over_ = saving_is_over_ || result.never_again ||
                      (config_.save_policy == "Once" && result.outcome == api::Outcome::kSuccess);
    blocked_until_changed_ = result.next == Next::kWhenChanged;
    if (result.next == Next::kRetry) {
      failures_ = result.reason == "busy" ? 0 : std::min(failures_ + 1, 6);
      // Doubles with each failure in a row, up to half an hour for the slow ones.
      const auto wait = result.retry_after * (1 << std::max(failures_ - 1, 0));
      next_attempt_ = clock_.monotonic() + wait;
    } else {
      failures_ = 0;
    }
    const bool trying_again = result.reason == "busy" || result.reason == "operator_unreachable";
    if (trying_again && !termination_.requested()) return;
    if (result.outcome == api::Outcome::kDoesNotExist) return;
    reporter_.note_save(result);
    if (watched_.look()) {
      reporter_.report(watched_.judge(), true, false,
                       std::min<Patience>(patience(), kReportPatience));
    }
  }

  static void log_result(const SaveResult& result) {
    log_info(result.outcome == api::Outcome::kSuccess ? "saved" : "not saved",
             {{"outcome", std::string(api::to_string(result.outcome))},
              {"reason", result.reason},
              {"message", result.message},
              {"digest", result.manifest_digest},
              {"generation", std::to_string(result.generation)},
              {"files", std::to_string(result.files)},
              {"bytes", std::to_string(result.bytes)}});
  }

  // When the app last asked; nothing when it does not.
  [[nodiscard]] std::optional<WallTime> request_time() const {
    return modified_at(control_.save_request());
  }

  // The app asks for a save: without waiting for silence, but for another pod's save. Its file
  // stays until it is answered, so that a saver which was killed meanwhile answers it in the end.
  void serve_request(WallTime asked) {
    (void)pause(kRequestSettles);
    asked = request_time().value_or(asked);
    if (saving_is_over_) {
      SaveResult result;
      result.reason = "saving_is_off";
      result.message = "saving is off: " + why_over();
      return answer_request(result, asked);
    }
    const auto end = clock_.monotonic() + kRequestedBusyPause;
    SaveResult result = attempt(true);
    while (result.reason == "busy" && clock_.monotonic() < end && pause(result.retry_after)) {
      result = attempt(true);
    }
    // The app waits for it; the operator's statistics do not.
    answer_request(result, asked);
    conclude(result);
  }

  [[nodiscard]] std::string why_over() const {
    if (config_.mode == "ReadOnly") return "the pod's mode is ReadOnly";
    if (config_.save_policy != "OnChange") return "spec.save.policy is " + config_.save_policy;
    return "the operator refused an earlier save for good: " + refusal_;
  }

  void answer_request(const SaveResult& result, WallTime asked) {
    const nlohmann::json answer{{"outcome", api::to_string(result.outcome)},
                                {"reason", result.reason},
                                {"message", result.message},
                                {"manifestDigest", result.manifest_digest},
                                {"generation", result.generation},
                                {"files", result.files},
                                {"bytes", result.bytes},
                                {"time", format_time(clock_.wall())}};
    if (const auto told =
            write_file(control_.save_result(),
                       answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
        !told) {
      log_warn("cannot answer the app's request", {{"error", told.error().message}});
    }
    answered_ = asked;
    if (request_time() != asked) return;  // it has asked again
    if (const auto removed = remove_file(control_.save_request()); !removed) {
      log_warn("cannot take the app's request away", {{"error", removed.error().message}});
    }
  }

  void report_load() {
    if (load_.reported || state_.load_reported || config_.operator_address.empty()) return;
    const auto now = clock_.monotonic();
    if (now < next_load_report_ || !file_exists(control_.status_file())) return;
    next_load_report_ = now + kLoadReportPause;
    state_.load_reported = reporter_.report_load(kReportPatience);
    if (!state_.load_reported) return;
    if (const auto noted = control_.write_saver_state(state_); !noted) {
      log_warn("cannot note the saver's state", {{"error", noted.error().message}});
    }
  }

  // After SIGTERM: the app is gone, so what is there is all there will be.
  void finish() {
    log_info("the pod ends", {});
    if (watched_.look()) {
      see();
      // Too late for a whole one: what was begun would be cancelled, perhaps with the lock held.
      if (!saving_is_over_ && seen_.anything_new) {
        left() > kLastWords ? save_at_the_end() : tell_what_is_lost();
      }
      if (watched_.look()) {
        // Not worth more of the pod's time, where nobody is there to hear it.
        reporter_.report(watched_.judge(), true, true,
                         std::clamp<Patience>(left(), kLastWords, kReportPatience));
      }
    }
  }

  void tell_what_is_lost() {
    SaveResult result;
    result.outcome = api::Outcome::kError;
    result.reason = "out_of_time";
    result.message =
        "there is something new, and no time for a last save: let the pod have a longer "
        "terminationGracePeriodSeconds and spec.save.atTermination, or a shorter quiet period";
    log_result(result);
    reporter_.note_save(result);
  }

  // Others were saving for as long as the pod's end could wait.
  static void say_lost(SaveResult& result) {
    result.outcome = api::Outcome::kError;
    result.reason = "out_of_time";
    result.message = "there is something new that is not saved: " + result.message;
  }

  void save_at_the_end() {
    while (true) {
      SaveResult result = attempt();
      const bool again = result.next == Next::kRetry && result.reason != "out_of_time" &&
                         left() > result.retry_after + kLastWords;
      if (!again) {
        if (result.reason == "busy") say_lost(result);
        return conclude(result);
      }
      log_info("trying once more before the end", {{"reason", result.reason}});
      std::this_thread::sleep_for(result.retry_after);
    }
  }

  // Of the time for which the pod's end may be delayed.
  [[nodiscard]] milliseconds left() const {
    return milliseconds(config_.at_termination_ms) - termination_.since();
  }
  [[nodiscard]] Patience patience() const {
    if (!termination_.requested()) return kPatience;
    return std::clamp<Patience>(left() - kLastWords, kShortestPause, kPatience);
  }
  // Between two tries: while the pod runs its end is a reason to stop waiting; after that it is
  // not.
  [[nodiscard]] bool pause(milliseconds time) const {
    if (!termination_.requested()) return termination_.sleep(time);
    std::this_thread::sleep_for(std::min(time, kFirstPause));
    return left() > milliseconds(0);
  }

  // Of the last view what matters later; a save makes its own.
  struct Seen {
    bool anything_new = false, busy = false;
    WallTime last_activity{};
  };

  const api::AgentConfig& config_;
  const std::string node_;
  const Clock& clock_;
  const Random& random_;
  Termination& termination_;
  const ControlDirectory control_;
  const LoadStatus load_;
  const std::unique_ptr<Coordinator> coordinator_;
  Watched watched_;
  Reporter reporter_;
  SaverState state_;
  Head head_;
  Seen seen_;
  frameworks::Evidence evidence_;
  bool view_is_old_ = true;                      // something was saved since it was made
  bool saved_ = false, told_compiling_ = false;  // since it was saved last
  WallTime last_activity_{};
  milliseconds interval_ = kFirstPause;
  std::chrono::nanoseconds look_takes_{0};
  Monotonic next_attempt_{}, next_load_report_{};
  std::optional<Monotonic> new_since_;  // when something that is not saved yet was seen first
  int failures_ = 0;
  std::optional<WallTime> answered_;  // the app's last request that was
  bool saving_is_over_ = false;
  std::string refusal_;  // the operator's, where that is why it is over
  bool blocked_until_changed_ = false;
};

// The volume may hang; the pod's end may not.
void end_in_time(const api::AgentConfig& config, Termination& termination) {
  const milliseconds time(config.at_termination_ms + kLastWords.count());
  termination.on_request([time] {
    std::thread([time] {
      std::this_thread::sleep_for(time);
      log_warn("the last save hangs; ending without it", {});
      ::_exit(0);
    }).detach();
  });
}

}  // namespace

void run_save(const api::AgentConfig& config, const Process& process) {
  // What the app computes comes first.
  [[maybe_unused]] const int niceness = ::nice(10);
  end_in_time(config, process.termination);
  // Once in any case: started for the pod's end it has a last save to make.
  do {
    try {
      Saver(config, process).run();
      return;
    } catch (const std::exception& error) {
      log_error("the saver could not start; trying again", {{"error", error.what()}});
      process.termination.sleep(kLongestPause);
    }
  } while (!process.termination.requested());
}

bool run_save_once(const api::AgentConfig& config, const Process& process) {
  return Saver(config, process).save_now();
}

void wait_for_the_end(const Termination& termination) {
  while (termination.sleep(std::chrono::hours(1))) {
  }
  log_info("the pod ends", {});
}

}  // namespace compilecache::agent
