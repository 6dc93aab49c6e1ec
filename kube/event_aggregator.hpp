#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.hpp"

// Decides how each Event is written: as a new object, as a higher count of an existing one, or not
// at all. No I/O, no clock.
//
// Source of the numbers: client-go's tools/record/events_cache.go.

namespace compilecache::kube {

// The object that an Event is about.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;  // empty: a cluster-wide object; its Events are in "default"
  std::string name;
  std::string uid;
  bool operator==(const ObjectReference&) const = default;
};

enum class EventType { kNormal, kWarning };

struct EventRecord {
  ObjectReference object;
  EventType type = EventType::kNormal;
  std::string reason;   // CamelCase, one word
  std::string message;  // one sentence; cut at 1024 bytes
};

struct AggregatorOptions {
  int burst = 25;                                      // Events of one object at once
  Duration refill = std::chrono::minutes(5);           // then one for each such time
  int similar_limit = 10;                              // this many that differ only in the message
  Duration similar_window = std::chrono::minutes(10);  // in this time become one
  size_t objects = 4096;                               // remembered, least recently used go first
};

// Not thread-safe.
class EventAggregator {
 public:
  explicit EventAggregator(AggregatorOptions options = {});
  ~EventAggregator();

  struct Write {
    std::string name;    // the Event object's name
    bool create = true;  // false: raise the count and the last time of the existing one
    int count = 1;
    WallTime first{};
    WallTime last{};
    EventRecord record;  // the message may say "(combined from similar events)"
  };
  // Returns nothing when the object has used up its Events.
  std::optional<Write> add(const EventRecord& record, Monotonic now, WallTime wall);
  // The Event to raise did not exist any more: the next one like it is created again.
  void forget(const EventRecord& record);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::kube
