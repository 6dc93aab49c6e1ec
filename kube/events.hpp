#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "kube/client.hpp"
#include "kube/event_aggregator.hpp"

// Writes Events (core/v1, as `kubectl describe` and `kubectl get events` show best).
//
//   EventRecorder events(client, "compilecache-operator");
//   events.warning({"apps/v1", "Deployment", "ml", "web", uid}, "InjectionSkipped", "claim x ...");
//
// record() never blocks: at most 1000 Events wait in a queue, further ones are dropped and counted.
// Repeats raise the count of one Event; an object gets 25 at once and then one in five minutes. A
// thread writes them, and tries each up to 12 times, 10 s apart, while the API server does not
// answer. stop() and the destructor write what is queued, for at most two seconds.

namespace compilecache::kube {

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void record(const EventRecord& record) = 0;

  void normal(const ObjectReference& object, const std::string& reason,
              const std::string& message) {
    record({object, EventType::kNormal, reason, message});
  }
  void warning(const ObjectReference& object, const std::string& reason,
               const std::string& message) {
    record({object, EventType::kWarning, reason, message});
  }
};

class EventRecorder : public EventSink {
 public:
  // `component` and `instance` say who reports.
  EventRecorder(const Client& client, std::string component, std::string instance = {},
                const Clock& clock = SystemClock::instance(), AggregatorOptions options = {});
  ~EventRecorder() override;

  // Thread-safe.
  void record(const EventRecord& record) override;
  void stop();
  // How many were not written, because the queue was full or the object had used up its Events.
  [[nodiscard]] uint64_t dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::kube
