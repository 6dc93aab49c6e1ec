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

  void on(const Start&) { begin_list(); }

  void on(const ListPage& page) {
    if (state_.pages == 0) state_.pages_version = page.resource_version;
    ++state_.pages;
    act(KeepPage{});
    if (!page.continue_token.empty()) {
      act(List{"", state_.limit, page.continue_token});
      return;
    }
    if (state_.list_version == "0" && state_.pages > 1) state_.paginated = true;
    state_.version_unavailable = false;
    state_.synced = true;
    state_.last_version = state_.pages_version;
    act(Replace{});
    begin_watch();
  }

  void on(const ListFailed& failed) {
    report("listing failed: " + failed.message);
    act(DropPages{});
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
      wait_then(State::Phase::kWaitingToList);
    }
  }

  void on(const WatchEvent& event) {
    if (state_.failed) return;
    ++state_.events;
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

  void on(const WatchEnded& ended) {
    if (state_.failed) {
      report("watch ended by the server: " + state_.error_message);
      wait_then(state_.error == Failure::kThrottled ? State::Phase::kWaitingToWatch
                                                    : State::Phase::kWaitingToList);
    } else if (ended.end == WatchEnd::kNotStarted) {
      report("watch did not start: " + ended.message);
      // Without a server or with a busy one a list would not do better, and costs more.
      const bool again = ended.failure == Failure::kRefused || ended.failure == Failure::kThrottled;
      wait_then(again ? State::Phase::kWaitingToWatch : State::Phase::kWaitingToList);
    } else if (state_.events == 0 && now_ - state_.watch_started < kShortWatch) {
      report("watch ended within a second and without an event: " + ended.message);
      wait_then(State::Phase::kWaitingToList);
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
    } else {
      begin_list();
    }
  }

 private:
  void act(Action action) { actions_.push_back(std::move(action)); }
  void report(std::string message) { act(Report{std::move(message)}); }

  void begin_list() {
    state_.phase = State::Phase::kListing;
    if (state_.version_unavailable) {
      state_.list_version = "";
    } else if (state_.last_version.empty()) {
      state_.list_version = "0";
    } else {
      state_.list_version = state_.last_version;
    }
    // At a real version a limit would keep the server from answering out of its watch cache.
    const bool real_version = !state_.list_version.empty() && state_.list_version != "0";
    state_.limit = real_version && !state_.paginated ? 0 : kPageSize;
    state_.pages = 0;
    state_.unpaged = false;
    act(List{state_.list_version, state_.limit, ""});
  }

  void begin_watch() {
    state_.phase = State::Phase::kWatching;
    state_.watch_version = state_.last_version;
    state_.watch_started = now_;
    state_.events = 0;
    state_.failed = false;
    state_.error_message.clear();
    state_.initial_events = state_.watch_version.empty() || state_.watch_version == "0";
    const auto spread = (kWatchTimeoutMax - kWatchTimeoutMin).count() + 1;
    const auto extra = static_cast<int64_t>(random_fraction(random_) * double(spread));
    act(Watch{state_.watch_version, kWatchTimeoutMin + std::chrono::seconds(extra)});
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
