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
#include <type_traits>

#include "agent/files.hpp"
#include "agent/pod.hpp"
#include "agent/save/reporter.hpp"
#include "agent/save/save_attempt.hpp"
#include "agent/save/save_machine.hpp"
#include "archive/beneath.hpp"
#include "base/log.hpp"
#include "base/time_format.hpp"

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// Saves by hand that lose to others' four times in a row each.
constexpr int kMostConflicts = 20;

// The processor time of this thread: what other processes do must not count as the cost of a look.
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

  // Waits until something changes in the control directory, `other` is readable, or the time is
  // over.
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

// Carries out what the machine (save_machine.hpp) decides.
class Saver {
 public:
  Saver(const api::AgentConfig& config, store::Store& store, const Process& process)
      : config_(config),
        store_(store),
        node_(node_name()),
        clock_(process.clock),
        random_(process.random),
        termination_(process.termination),
        control_(config.control_path),
        load_(control_.read_status().value_or(LoadStatus{})),
        coordinator_(make_coordinator(config, store, node_, clock_, random_,
                                      [this](milliseconds time) { return pause(time); })),
        watched_(config, store, load_, control_, clock_),
        cpu_code_(config),
        reporter_(config_, load_, *coordinator_, clock_),
        state_(control_.read_saver_state()),
        settings_(saver::make_settings(config, load_, state_)),
        machine_(saver::begin(settings_, state_)) {
    if (const auto made = make_open_directory(config.control_path); !made) {
      log_warn("cannot make the control directory", {{"error", made.error().message}});
    }
    recall_head();
  }

  void run() {
    log_info("watching", {{"loaded", load_.loaded() ? load_.archive : "nothing"},
                          {"saves", settings_.saves ? "yes" : "no"}});
    // There is no watch for a single save: the kernel takes up to 30 ms to remove one.
    requests_.emplace(config_.control_path);
    saver::Input input = saver::Woken{};
    while (machine_.phase != saver::State::Phase::kEnded) {
      saver::Step next = saver::step(settings_, std::move(machine_), input, moment());
      machine_ = std::move(next.state);
      input = carry_out(next.actions);
    }
  }

  bool save_now() {
    wait_until_still();
    const saver::Save once{.notices_within = saver::notices_within(settings_, machine_)};
    SaveResult result = attempt(once);
    // One of many savers is first each time.
    for (int tries = 0; result.reason == "conflict" && tries < kMostConflicts; ++tries)
      result = attempt(once);
    log_result(result);
    return result.outcome != api::Outcome::kError && result.reason != "busy";
  }

 private:
  // As where it watches: what is still being written is not saved, or half of it would be.
  void wait_until_still() {
    const milliseconds quiet = settings_.quiet_period;
    const auto until = clock_.monotonic() + quiet * saver::kOverdueQuietPeriods;
    while (!termination_.requested() && clock_.monotonic() < until) {
      if (!watched_.look()) return;  // the save says why
      const saver::View seen = view(quiet);
      const auto quiet_for =
          std::chrono::duration_cast<milliseconds>(watched_.looked_at() - seen.last_activity);
      // A change in the future (the clock was set back) does not count.
      const bool still = quiet_for >= quiet || quiet_for < -quiet;
      if (!seen.anything_new || (still && !seen.busy)) return;
      const milliseconds left = still ? saver::kFirstPause : quiet - quiet_for;
      if (!pause(std::clamp(left, saver::kShortestPause, saver::kFirstPause))) return;
    }
  }

  // The assumed content of the current archive: this saver's save before it was killed, else the
  // loaded files, if they were this pod's own.
  void recall_head() {
    cpu_code_.known(load_.archive_cpu);
    std::string digest = state_.head;
    if (digest.empty() && load_.loaded() && load_.match == api::Match::kExact) {
      digest = load_.manifest_digest;
    }
    if (digest.empty()) return;
    if (auto head = read_head(store_, digest)) {
      head_ = std::move(*head);
      head_.ours = digest == load_.manifest_digest || state_.saves > 0;
      if (head_.ours) cpu_code_.known(head_.cpu);
    } else {
      log_info("what the archive holds is not known; the operator will say",
               {{"error", head.error().message}});
    }
  }

  [[nodiscard]] saver::Moment moment() const {
    if (!termination_.requested()) return {clock_.monotonic(), std::nullopt};
    return {clock_.monotonic(), termination_.since()};
  }

  saver::Input carry_out(const std::vector<saver::Action>& actions) {
    saver::Input answer = saver::Woken{};
    const auto carry_out_one = [&](const auto& action) {
      if constexpr (std::is_void_v<decltype(this->on(action))>) {
        this->on(action);
      } else {
        answer = this->on(action);
      }
    };
    try {
      for (const saver::Action& action : actions) std::visit(carry_out_one, action);
    } catch (const std::exception& error) {
      if (machine_.ending()) throw;
      log_error("an error that nobody expected; going on", {{"error", error.what()}});
      return saver::Broke{};
    }
    return answer;
  }

  saver::LoadReported on(const saver::ReportLoad& report) {
    using Told = saver::LoadReported::Told;
    if (!file_exists(control_.status_file())) return {Told::kNothingThere};
    state_.load_reported = reporter_.report_load(report.patience);
    if (!state_.load_reported) return {Told::kNo};
    if (const auto noted = control_.write_saver_state(state_); !noted) {
      log_warn("cannot note the saver's state", {{"error", noted.error().message}});
    }
    return {Told::kYes};
  }

  saver::Input on(const saver::Look& look) {
    using For = saver::Look::For;
    const bool watches = look.what == For::kChanges || look.what == For::kAll;
    const auto before = processor_time();
    if (const Status looked = this->look(look.what); !looked) {
      if (watches) log_warn("cannot look at the cache", {{"error", looked.error().message}});
      return saver::LookFailed{watched_.looked_at()};
    }
    saver::Looked seen{std::nullopt, watched_.looked_at(), processor_time() - before};
    if (look.what != For::kChanges || watched_.changed()) {
      if (look.what != For::kEffect) seen.view = view(look.quiet_period);
      if (look.what != For::kFiles) evidence_ = watched_.judge();
    }
    if (watches && !watched_.changed()) watched_.forget();
    return seen;
  }

  // While nothing changes nothing is kept, and a look costs hardly more than the system calls.
  Status look(saver::Look::For what) {
    if (what != saver::Look::For::kChanges || watched_.changed()) return watched_.look();
    const auto differs = watched_.differs();
    if (!differs) return unexpected(differs.error());
    return *differs ? watched_.look() : Status{};
  }

  saver::View view(milliseconds quiet_period) {
    watched_.set_quiet_period(quiet_period);
    const SaveView view = watched_.plan(head_.held, head_.notes, state_.saved_at);
    return {view.anything_new(), !view.busy.empty(), view.last_activity};
  }

  void on(const saver::ReportEffect& report) {
    if (report.compiling) reporter_.note_compiling();
    reporter_.report(evidence_, report.settled, report.last, report.patience);
  }

  saver::RequestRead on(const saver::ReadRequest&) const {
    return {modified_at(control_.save_request())};
  }

  saver::Saved on(const saver::Save& save) {
    SaveResult result = attempt(save);
    return {std::move(result), state_.saves, watched_.looked_at()};
  }

  SaveResult attempt(const saver::Save& save) {
    const SaveLimits limits{[this] { return saver::call_patience(settings_, moment()); },
                            [this] { return saver::gives_up(settings_, moment()); },
                            save.final_save, save.asked, save.notices_within};
    const SaveParts parts{config_,
                          store_,
                          node_,
                          *coordinator_,
                          watched_,
                          cpu_code_,
                          too_much_,
                          control_,
                          clock_,
                          random_,
                          load_.loaded() ? load_.manifest_digest : ""};
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
    result.next = SaveResult::Next::kWhenChanged;
    return result;
  }

  void on(const saver::AnswerApp& app) const {
    const SaveResult& result = app.result;
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
    if (modified_at(control_.save_request()) != app.asked) return;  // it has asked again
    if (const auto removed = remove_file(control_.save_request()); !removed) {
      log_warn("cannot take the app's request away", {{"error", removed.error().message}});
    }
  }

  void on(const saver::NoteResult& note) {
    log_result(note.result);
    if (note.for_operator) reporter_.note_save(note.result);
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

  static void on(const saver::Say& say) {
    if (say.reason.empty()) return log_info(say.message, {});
    log_info(say.message, {{"reason", say.reason}});
  }

  static void on(const saver::Explain& look) {
    const auto word = [](bool yes) { return yes ? "yes" : "no"; };
    log_debug("looked", {{"new", word(look.anything_new)},
                         {"busy", word(look.busy)},
                         {"still", word(look.still)},
                         {"save", word(look.save)},
                         {"asked", word(look.asked)}});
  }

  saver::Paused on(const saver::Pause& pause) const {
    if (!pause.to_the_end) return {termination_.sleep(pause.time)};
    std::this_thread::sleep_for(pause.time);
    return {true};
  }

  saver::Woken on(const saver::Wait& wait) const {
    requests_->wait(termination_.fd(), wait.time);
    return {};
  }

  static void on(const saver::End&) {}

  // Between two tries of one call to the operator: while the pod runs its end is a reason to stop;
  // after that it is not.
  [[nodiscard]] bool pause(milliseconds time) const {
    if (!termination_.requested()) return termination_.sleep(time);
    std::this_thread::sleep_for(std::min(time, saver::kFirstPause));
    return saver::time_left(settings_, moment()) > milliseconds(0);
  }

  const api::AgentConfig& config_;
  store::Store& store_;
  const std::string node_;
  const Clock& clock_;
  const Random& random_;
  Termination& termination_;
  const ControlDirectory control_;
  const LoadStatus load_;
  const std::unique_ptr<Coordinator> coordinator_;
  Watched watched_;
  CpuCode cpu_code_;
  TooMuch too_much_;
  Reporter reporter_;
  SaverState state_;
  Head head_;
  frameworks::Evidence evidence_;  // by the last look that judged
  const saver::Settings settings_;
  saver::State machine_;
  std::optional<RequestWatch> requests_;
};

// Ends the process in time even where the store hangs: one that can be left in the middle of a call
// leaves time for the last words.
void end_in_time(const api::AgentConfig& config, store::Store& store, Termination& termination) {
  const milliseconds time = config.save.at_termination;
  termination.on_request([time, &store] {
    store.end_by(std::chrono::steady_clock::now() +
                 std::max(milliseconds(0), time - saver::kLastWords));
    std::thread([time] {
      std::this_thread::sleep_for(time + saver::kLastWords);
      log_warn("the last save hangs; ending without it", {});
      ::_exit(0);
    }).detach();
  });
}

}  // namespace

void run_save(const api::AgentConfig& config, store::Store& store, const Process& process) {
  // The app's own work comes first.
  [[maybe_unused]] const int niceness = ::nice(10);
  end_in_time(config, store, process.termination);
  // It runs at least once: a saver that is started at the pod's end still has a last save to make.
  do {
    try {
      Saver(config, store, process).run();
      return;
    } catch (const std::exception& error) {
      log_error("the saver could not start; trying again", {{"error", error.what()}});
      process.termination.sleep(saver::kLongestPause);
    }
  } while (!process.termination.requested());
}

bool run_save_once(const api::AgentConfig& config, store::Store& store, const Process& process) {
  return Saver(config, store, process).save_now();
}

void wait_for_the_end(const Termination& termination) {
  while (termination.sleep(std::chrono::hours(1))) {
  }
  log_info("the pod ends", {});
}

}  // namespace compilecache::agent
