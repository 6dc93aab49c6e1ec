#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"

// Decides what a reflector does next: get the present objects, watch them from there, recover when
// something breaks. It only decides: no I/O, no clock, no objects. The driver (reflector.hpp) does
// what step() says and returns what happened.
//
// The present objects come as the beginning of the watch, up to a bookmark that says so
// ("WatchList", KEP-3157); from servers that cannot do this, as a list in pages.
//
//   auto [next, actions] = step(state, input, now, random);
//
// Rules and numbers are client-go's tools/cache/reflector.go and tools/pager/pager.go, but for one.
// After a watch that is refused as too old, as after each restart of an API server, the present
// objects are requested at once; client-go waits once more, up to a minute.

namespace compilecache::kube::reflector {

inline constexpr int kPageSize = 500;
inline constexpr Duration kBackoffFirst = std::chrono::milliseconds(800);
inline constexpr Duration kBackoffCap = std::chrono::seconds(30);
inline constexpr Duration kBackoffReset = std::chrono::minutes(2);
inline constexpr std::chrono::seconds kWatchTimeoutMin{300};
inline constexpr std::chrono::seconds kWatchTimeoutMax{600};
// A watch that ends sooner without an event counts as an error.
inline constexpr Duration kShortWatch = std::chrono::seconds(1);
// How often a missing bookmark after the present objects is logged.
inline constexpr std::chrono::seconds kBookmarkWarning{10};

// --- what is to be done ---------------------------------------------------------------------

// Ask for one page. Answer with ListPage or ListFailed.
struct List {
  std::string resource_version;  // not sent with a continue token
  int limit = 0;                 // 0: none
  std::string continue_token;
};
struct KeepPage {};  // remember the objects of the page that has just come
struct Keep {};      // remember, or forget when it is deleted, the object of the event just come
struct Drop {};      // forget what was remembered
struct Replace {};   // what was remembered is the whole truth now
// Watch. Answer with WatchEvent for each line that is one, with Tick in silence, then with
// WatchEnded.
struct Watch {
  std::string resource_version;
  std::chrono::seconds timeout{0};
  bool initial_events = false;  // with the present objects first
};
struct Apply {};      // put the event that has just come into the store
struct StopWatch {};  // read no more from this watch; WatchEnded follows
struct Wait {         // answer with Waited
  Duration time{0};
};
struct Report {  // say it in the log
  std::string message;
};
using Action =
    std::variant<List, KeepPage, Keep, Drop, Replace, Watch, Apply, StopWatch, Wait, Report>;

// --- what has happened ----------------------------------------------------------------------

enum class Failure {
  kRefused,    // no connection could be made
  kThrottled,  // 429
  kExpired,    // 410, or an ERROR event that says so
  kTooLarge,   // "Too large resource version": the server is behind what we have seen
  kOther,
};

struct Start {};
struct ListPage {
  std::string resource_version;
  std::string continue_token;
};
struct ListFailed {
  Failure failure = Failure::kOther;
  std::string message;
};
enum class EventType { kAdded, kModified, kDeleted, kBookmark };
struct WatchEvent {
  EventType type = EventType::kAdded;
  std::string resource_version;
  bool initial_end = false;  // a bookmark that says that the present objects have come
};
// An ERROR event; the watch is over with it.
struct WatchError {
  Failure failure = Failure::kOther;
  std::string message;
};
enum class WatchEnd {
  kNotStarted,  // no connection, or an answer other than 200
  kClosed,      // the server ended it properly
  kBroken,      // cut in the middle, or silent for too long
};
struct WatchEnded {
  WatchEnd end = WatchEnd::kClosed;
  Failure failure = Failure::kOther;  // of kNotStarted
  std::string message;
};
struct Waited {};
struct Tick {};  // time goes by in a watch
using Input =
    std::variant<Start, ListPage, ListFailed, WatchEvent, WatchError, WatchEnded, Waited, Tick>;

// --- the state ------------------------------------------------------------------------------

struct Backoff {
  Duration next = kBackoffFirst;
  Monotonic last{};  // when it was used last
  bool used = false;
};

struct State {
  enum class Phase {
    kIdle,
    kListing,
    kStreaming,  // the present objects come as the beginning of a watch
    kWatching,
    kWaitingToSync,  // to list or to stream
    kWaitingToWatch,
  };
  Phase phase = Phase::kIdle;

  bool watch_list = true;  // the server is not known to refuse it

  std::string last_version;          // empty: never listed
  bool version_unavailable = false;  // the server no longer (or not yet) has last_version
  bool synced = false;               // there was a Replace
  // A list at "0" came in pages: this server has no watch cache for the resource, so that pages
  // are kept at real versions too.
  bool paginated = false;

  // The list under way:
  std::string list_version;  // what it was asked at
  int limit = 0;
  int pages = 0;              // that have come
  std::string pages_version;  // the first page's
  bool unpaged = false;       // the one retry without pages

  // The watch under way:
  std::string watch_version;
  Monotonic watch_started{};
  Monotonic warned{};  // when it was last said that a bookmark is missing
  int events = 0;
  bool waited = false;  // there was a Wait right before it
  bool failed = false;  // an ERROR event has come
  Failure error = Failure::kOther;
  std::string error_message;
  // The watch began at "" or "0": its first events are the present state in no order.
  bool initial_events = false;

  Backoff backoff;
};

struct Step {
  State state;
  std::vector<Action> actions;
};

Step step(State state, const Input& input, Monotonic now, const Random& random);

}  // namespace compilecache::kube::reflector
