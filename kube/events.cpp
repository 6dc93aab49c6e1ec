#include "kube/events.hpp"

#include <atomic>
#include <deque>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/mutex.hpp"
#include "base/time_format.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

// Source: client-go's tools/record/event.go.
constexpr size_t kQueueLimit = 1000;
constexpr int kTries = 12;
constexpr Duration kBetweenTries = std::chrono::seconds(10);
constexpr Duration kStopTime = std::chrono::seconds(2);
// Records that come close together are written together: waking the thread for each would cost the
// caller more than all the rest.
constexpr Duration kGather = std::chrono::milliseconds(20);

const char* type_name(EventType type) { return type == EventType::kWarning ? "Warning" : "Normal"; }

bool worth_another_try(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kTimeout || code == ErrorCode::kIo ||
         code == ErrorCode::kThrottled;
}

}  // namespace

struct EventRecorder::Impl {
  Impl(const Client& c, std::string comp, std::string inst, const Clock& k, AggregatorOptions o)
      : client(c.with_cancel(cancel)),
        component(std::move(comp)),
        instance(std::move(inst)),
        clock(k),
        aggregator(o) {}

  struct Queued {
    EventRecord record;
    Monotonic at;
    WallTime wall;
  };

  const Cancellation cancel;  // given up
  const Client client;
  const std::string component;
  const std::string instance;
  const Clock& clock;
  EventAggregator aggregator;  // only of the thread

  Mutex mutex;
  CondVar filled;   // the queue was empty, or it is to stop
  CondVar stopped;  // it is to stop
  CondVar written;  // what was taken out of the queue
  std::deque<Queued> queue GUARDED_BY(mutex);
  bool writing GUARDED_BY(mutex) = false;
  bool stopping GUARDED_BY(mutex) = false;
  std::atomic<uint64_t> dropped{0};
  std::thread thread;

  void run();
  std::deque<Queued> take();
  void deliver(const Queued& queued);
  Status write(const EventAggregator::Write& write);
  [[nodiscard]] Json object(const EventAggregator::Write& write) const;
};

// Empty: there is nothing more to come.
std::deque<EventRecorder::Impl::Queued> EventRecorder::Impl::take() {
  const MutexLock lock(mutex);
  filled.wait(mutex, [&]() REQUIRES(mutex) { return stopping || !queue.empty(); });
  stopped.wait_for(mutex, kGather, [&]() REQUIRES(mutex) { return stopping; });
  writing = !queue.empty();
  return std::exchange(queue, {});
}

void EventRecorder::Impl::run() {
  for (auto batch = take(); !batch.empty(); batch = take()) {
    for (const Queued& queued : batch) {
      if (cancel.cancelled()) {
        ++dropped;
      } else {
        deliver(queued);
      }
    }
    const MutexLock lock(mutex);
    writing = false;
    written.notify_all();
  }
}

void EventRecorder::Impl::deliver(const Queued& queued) {
  auto what = aggregator.add(queued.record, queued.at, queued.wall);
  if (!what) {
    ++dropped;
    return;
  }
  for (int tries = 1;; ++tries) {
    Status status = write(*what);
    if (status) return;
    if (!what->create && status.error().code == ErrorCode::kNotFound) {
      what->create = true;  // somebody deleted it; its count goes on
      continue;
    }
    if (tries >= kTries || !worth_another_try(status.error().code) || client.pause(kBetweenTries)) {
      ++dropped;
      aggregator.forget(queued.record);
      log_warn("event not written",
               {{"reason", queued.record.reason}, {"error", status.error().message}});
      return;
    }
  }
}

Status EventRecorder::Impl::write(const EventAggregator::Write& write) {
  const std::string ns = write.record.object.ns.empty() ? "default" : write.record.object.ns;
  if (write.create) {
    Result<Json> created = client.create(resources::kEvents, object(write));
    if (!created) return unexpected(created.error());
    return {};
  }
  const Json patch = {{"count", write.count},
                      {"lastTimestamp", format_time(write.last)},
                      {"message", write.record.message}};
  Result<Json> patched = client.patch(resources::kEvents, ns, write.name, PatchType::kMerge, patch);
  if (!patched) return unexpected(patched.error());
  return {};
}

Json EventRecorder::Impl::object(const EventAggregator::Write& write) const {
  const ObjectReference& about = write.record.object;
  Json involved = {{"apiVersion", about.api_version}, {"kind", about.kind}, {"name", about.name}};
  if (!about.ns.empty()) involved["namespace"] = about.ns;
  if (!about.uid.empty()) involved["uid"] = about.uid;
  Json source = {{"component", component}};
  if (!instance.empty()) source["host"] = instance;
  return {
      {"apiVersion", "v1"},
      {"kind", "Event"},
      {"metadata", {{"namespace", about.ns.empty() ? "default" : about.ns}, {"name", write.name}}},
      {"involvedObject", std::move(involved)},
      {"type", type_name(write.record.type)},
      {"reason", write.record.reason},
      {"message", write.record.message},
      {"count", write.count},
      {"firstTimestamp", format_time(write.first)},
      {"lastTimestamp", format_time(write.last)},
      {"source", std::move(source)},
      {"reportingComponent", component},
      {"reportingInstance", instance}};
}

EventRecorder::EventRecorder(const Client& client, std::string component, std::string instance,
                             const Clock& clock, AggregatorOptions options)
    : impl_(std::make_unique<Impl>(client, std::move(component), std::move(instance), clock,
                                   options)) {
  impl_->thread = std::thread([this] { impl_->run(); });
}

EventRecorder::~EventRecorder() { stop(); }

void EventRecorder::record(const EventRecord& record) {
  const MutexLock lock(impl_->mutex);
  if (impl_->stopping || impl_->queue.size() >= kQueueLimit) {
    ++impl_->dropped;
    return;
  }
  if (impl_->queue.empty()) impl_->filled.notify_one();
  impl_->queue.push_back({record, impl_->clock.monotonic(), impl_->clock.wall()});
}

void EventRecorder::stop() {
  {
    const MutexLock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->filled.notify_all();
    impl_->stopped.notify_all();
    impl_->written.wait_for(impl_->mutex, kStopTime, [&]() REQUIRES(impl_->mutex) {
      return impl_->queue.empty() && !impl_->writing;
    });
  }
  impl_->cancel.cancel();
  if (impl_->thread.joinable()) impl_->thread.join();
}

uint64_t EventRecorder::dropped() const { return impl_->dropped; }

}  // namespace compilecache::kube
