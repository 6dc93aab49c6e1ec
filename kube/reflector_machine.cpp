#include "kube/reflector_machine.hpp"

#include <algorithm>
#include <utility>

namespace compilecache::kube::reflector {
namespace {

// One step under way. Each `on` handles one kind of input.
class Stepper {
 public:
  Stepper(State state, Monotonic now, const Random& random)
      : state_(std::move(state)), now_(now), random_(random) {}

  Step finish() && { return {std::move(state_), std::move(actions_)}; }

  void on(const Start&) { begin_sync(); }

  void on(const ListPage& page) {
    if (state_.pages == 0) state_.pages_version = page.resource_version;
    ++state_.pages;
    act(KeepPage{});
    if (!page.continue_token.empty()) {
      act(List{"", state_.limit, page.continue_token});
      return;
    }
    if (state_.list_version == "0" && state_.pages > 1) state_.paginated = true;
    synced_at(state_.pages_version);
    begin_watch();
  }

  void on(const ListFailed& failed) {
    report("listing failed: " + failed.message);
    act(Drop{});
    const bool version_gone =
        failed.failure == Failure::kExpired || failed.failure == Failure::kTooLarge;
    if (failed.failure == Failure::kExpired && state_.pages > 0 && !state_.unpaged) {
      // The pages took so long that the server forgot the first: all at once, then.
      state_.unpaged = true;
      state_.pages = 0;
      state_.limit = 0;
      act(List{state_.list_version, 0, ""});
    } else if (version_gone && !state_.list_version.empty()) {
      state_.version_unavailable = true;
      begin_list();
    } else {
      wait_then(State::Phase::kWaitingToSync);
    }
  }

  void on(const WatchEvent& event) {
    if (state_.failed) return;
    ++state_.events;
    if (state_.phase == State::Phase::kStreaming) {
      if (event.type != EventType::kBookmark) {
        act(Keep{});
      } else if (event.initial_end) {
        synced_at(event.resource_version);
        state_.phase = State::Phase::kWatching;
      }
      warn_without_bookmark();
      return;
    }
    if (event.type != EventType::kBookmark) act(Apply{});
    if (event.type != EventType::kAdded) state_.initial_events = false;
    if (!state_.initial_events && !event.resource_version.empty()) {
      state_.last_version = event.resource_version;
    }
  }

  void on(const WatchError& error) {
    if (state_.failed) return;
    state_.failed = true;
    state_.error = error.failure;
    state_.error_message = error.message;
    act(StopWatch{});
  }

  void on(const Tick&) { warn_without_bookmark(); }

  void on(const WatchEnded& ended) {
    if (state_.phase == State::Phase::kStreaming) {
      stream_ended(ended);
    } else if (state_.failed) {
      report("watch ended by the server: " + state_.error_message);
      if (too_old_after_a_wait(state_.error)) return begin_sync();
      wait_then(state_.error == Failure::kThrottled ? State::Phase::kWaitingToWatch
                                                    : State::Phase::kWaitingToSync);
    } else if (ended.end == WatchEnd::kNotStarted) {
      report("watch did not start: " + ended.message);
      if (too_old_after_a_wait(ended.failure)) return begin_sync();
      // Where there is no server, or a busy one, a list would fail as well, and cost more.
      const bool again = ended.failure == Failure::kRefused || ended.failure == Failure::kThrottled;
      wait_then(again ? State::Phase::kWaitingToWatch : State::Phase::kWaitingToSync);
    } else if (state_.events == 0 && now_ - state_.watch_started < kShortWatch) {
      report("watch ended within a second and without an event: " + ended.message);
      wait_then(State::Phase::kWaitingToSync);
    } else if (ended.end == WatchEnd::kBroken) {
      report("watch broke: " + ended.message);
      wait_then(State::Phase::kWaitingToWatch);
    } else {
      begin_watch();
    }
  }

  void on(const Waited&) {
    if (state_.phase == State::Phase::kWaitingToWatch) {
      begin_watch();
      state_.waited = true;
    } else {
      begin_sync();
    }
  }

 private:
  void act(Action action) { actions_.push_back(std::move(action)); }
  void report(std::string message) { act(Report{std::move(message)}); }

  void begin_sync() {
    if (state_.watch_list) {
      begin_stream();
    } else {
      begin_list();
    }
  }

  void begin_stream() {
    start_watch(state_.version_unavailable ? "" : state_.last_version, true);
    state_.phase = State::Phase::kStreaming;
  }

  [[nodiscard]] bool too_old_after_a_wait(Failure failure) const {
    return failure == Failure::kExpired && state_.waited && state_.events == 0;
  }

  // The stream ended before its bookmark came: what was remembered is useless.
  void stream_ended(const WatchEnded& ended) {
    act(Drop{});
    const bool answered = state_.failed || ended.end == WatchEnd::kNotStarted;
    const Failure failure = state_.failed ? state_.error : ended.failure;
    const std::string& message = state_.failed ? state_.error_message : ended.message;
    report("the watch that begins with the present objects ended before they were all there: " +
           message);
    const bool version_gone = failure == Failure::kExpired || failure == Failure::kTooLarge;
    if (answered && version_gone && !state_.watch_version.empty()) {
      state_.version_unavailable = true;
      begin_stream();
    } else if (answered ? failure == Failure::kRefused || failure == Failure::kThrottled
                        : state_.events > 0) {  // it works, but was cut
      wait_then(State::Phase::kWaitingToSync);
    } else {
      report("listing instead");
      state_.watch_list = false;
      begin_list();
    }
  }

  void warn_without_bookmark() {
    if (state_.phase != State::Phase::kStreaming || now_ - state_.warned < kBookmarkWarning) return;
    state_.warned = now_;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now_ - state_.watch_started).count();
    report("still waiting for the end of the present objects, after " + std::to_string(seconds) +
           " s and " + std::to_string(state_.events) + " events");
  }

  void synced_at(const std::string& version) {
    state_.version_unavailable = false;
    state_.synced = true;
    state_.last_version = version;
    act(Replace{});
  }

  void begin_list() {
    state_.phase = State::Phase::kListing;
    state_.list_version = version_to_list();
    // With a limit at a real version the server would not answer from its watch cache.
    const bool real_version = !state_.list_version.empty() && state_.list_version != "0";
    state_.limit = real_version && !state_.paginated ? 0 : kPageSize;
    state_.pages = 0;
    state_.unpaged = false;
    act(List{state_.list_version, state_.limit, ""});
  }

  [[nodiscard]] std::string version_to_list() const {
    if (state_.version_unavailable) return {};
    return state_.last_version.empty() ? std::string(1, '0') : state_.last_version;
  }

  void begin_watch() {
    start_watch(state_.last_version, false);
    state_.phase = State::Phase::kWatching;
    state_.initial_events = state_.watch_version.empty() || state_.watch_version == "0";
  }

  void start_watch(const std::string& version, bool initial_events) {
    state_.watch_version = version;
    state_.watch_started = now_;
    state_.warned = now_;
    state_.events = 0;
    state_.initial_events = false;
    state_.waited = false;
    state_.failed = false;
    state_.error_message.clear();
    const auto spread = (kWatchTimeoutMax - kWatchTimeoutMin).count() + 1;
    const auto extra = static_cast<int64_t>(random_fraction(random_) * double(spread));
    act(Watch{version, kWatchTimeoutMin + std::chrono::seconds(extra), initial_events});
  }

  void wait_then(State::Phase phase) {
    Backoff& backoff = state_.backoff;
    if (backoff.used && now_ - backoff.last > kBackoffReset) backoff.next = kBackoffFirst;
    const Duration base = backoff.next;
    backoff.next = std::min(base * 2, kBackoffCap);
    backoff.last = now_;
    backoff.used = true;
    const auto jitter = static_cast<int64_t>(random_fraction(random_) * double(base.count()));
    state_.phase = phase;
    act(Wait{base + Duration(jitter)});
  }

  State state_;
  const Monotonic now_;
  const Random& random_;
  std::vector<Action> actions_;
};

}  // namespace

Step step(State state, const Input& input, Monotonic now, const Random& random) {
  Stepper stepper(std::move(state), now, random);
  std::visit([&](const auto& what) { stepper.on(what); }, input);
  return std::move(stepper).finish();
}

}  // namespace compilecache::kube::reflector
