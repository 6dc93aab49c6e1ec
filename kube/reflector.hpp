#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/random.hpp"
#include "kube/client.hpp"
#include "kube/fields.hpp"
#include "kube/protobuf.hpp"
#include "kube/store.hpp"

// Keeps a Store equal to what the API server holds: gets the present objects, then watches, and
// recovers from errors.
//
//   Store<Pod> pods;
//   Reflector<Pod> reflector(client, {.resource = resources::kPods,
//                                     .label_selector = "compilecache.dev/cache",
//                                     .fields = {"/status/phase"}},
//                            parse_pod, pods);      // Result<Pod> parse_pod(const nlohmann::json&)
//   reflector.start();
//   wait_for_sync({[&] { return pods.has_synced(); }}, std::chrono::minutes(2), cancel);
//
// Objects are parsed one by one while they come in, only the fields that are named: memory holds
// one object's JSON at a time, however many there are. One thread for each reflector, in which the
// store's handlers run. An object that parse refuses (or throws at) is logged and left out; what
// the store had of it stays until it is deleted. The store must outlive the reflector. stop() and
// the destructor end the thread.

namespace compilecache::kube {

struct ReflectorOptions {
  Resource resource;
  std::string ns;  // empty: all namespaces
  std::string label_selector;
  std::string field_selector;
  Fields fields;  // what parse looks at; also in: kind, namespace, name and resourceVersion
  bool metadata_only = false;
  // Asks the server for protobuf and reads it by this description; null: JSON.
  const protobuf::Message* protobuf = nullptr;
  bool watch_list = true;  // get the present objects by a watch, where the server can
  // The longest silence of a watch, and the longest wait for its headers.
  std::chrono::milliseconds idle_timeout = WatchOptions().idle_timeout;
  std::chrono::milliseconds start_timeout = WatchOptions().start_timeout;
  // Waits between tries and returns true when it is time to stop. Empty: waits as long as the
  // machine says or until stop(). For tests.
  std::function<bool(Duration)> wait;
};

// A reflector's progress, for health checks and metrics.
struct ReflectorHealth {
  bool synced = false;
  uint64_t lists = 0;            // lists begun
  uint64_t watches = 0;          // watches begun
  uint64_t syncs = 0;            // times that the present objects were got, by list or by watch
  uint64_t events = 0;           // events applied
  std::string resource_version;  // up to which the store has seen everything
  std::string last_error;
};

namespace detail {

// Takes the driver's objects; the template below makes them structs.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  virtual void keep(const nlohmann::json& object) = 0;    // until replace() or drop()
  virtual void forget(const nlohmann::json& object) = 0;  // was kept, and was deleted
  virtual void begin_page() = 0;  // what was kept since keep_page() does not count
  virtual void keep_page() = 0;
  virtual void drop() = 0;
  virtual void replace() = 0;
  virtual void upsert(const nlohmann::json& object) = 0;
  virtual void erase(const nlohmann::json& object) = 0;
};

class ReflectorDriver {
 public:
  ReflectorDriver(const Client& client, ReflectorOptions options, ReflectorSink& sink,
                  const Clock& clock, Random random);
  ~ReflectorDriver();
  void start();
  void stop();
  [[nodiscard]] ReflectorHealth health() const;
  [[nodiscard]] std::optional<Monotonic> heard() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string key_of(const nlohmann::json& object);
void report_unusable(const ReflectorOptions& options, const std::string& key, const Error& error);

}  // namespace detail

template <typename T>
class Reflector {
 public:
  using Parse = std::function<Result<T>(const nlohmann::json&)>;

  Reflector(const Client& client, ReflectorOptions options, Parse parse, Store<T>& store,
            const Clock& clock = SystemClock::instance(), Random random = system_random())
      : sink_(options, std::move(parse), store),
        driver_(client, std::move(options), sink_, clock, std::move(random)) {}

  void start() { driver_.start(); }
  void stop() { driver_.stop(); }
  [[nodiscard]] ReflectorHealth health() const { return driver_.health(); }
  // When the API server last sent an event or a bookmark of the watch, or the present objects: the
  // store has every change that happened before. Nothing: not yet.
  [[nodiscard]] std::optional<Monotonic> heard() const { return driver_.heard(); }

 private:
  class Sink : public detail::ReflectorSink {
   public:
    Sink(ReflectorOptions options, Parse parse, Store<T>& store)
        : options_(std::move(options)), parse_(std::move(parse)), store_(store) {}

    void keep(const nlohmann::json& object) override {
      std::string key = detail::key_of(object);
      auto parsed = make(key, object);
      // An object that cannot be read exists all the same: what is known of it stays.
      if (parsed == nullptr) parsed = store_.get(key);
      if (parsed != nullptr) kept_.emplace_back(std::move(key), std::move(parsed));
    }
    void forget(const nlohmann::json& object) override {
      kept_.emplace_back(detail::key_of(object), nullptr);
    }
    void begin_page() override { kept_.resize(pages_); }
    void keep_page() override { pages_ = kept_.size(); }
    void drop() override {
      kept_.clear();
      pages_ = 0;
    }
    void replace() override {
      store_.replace(std::exchange(kept_, {}));
      pages_ = 0;
    }
    void upsert(const nlohmann::json& object) override {
      std::string key = detail::key_of(object);
      if (auto parsed = make(key, object)) store_.upsert(key, std::move(parsed));
    }
    void erase(const nlohmann::json& object) override {
      std::string key = detail::key_of(object);
      store_.erase(key, make(key, object));
    }

   private:
    typename Store<T>::Ptr make(const std::string& key, const nlohmann::json& object) {
      Result<T> parsed = fail(ErrorCode::kInternal, "");
      try {
        parsed = parse_(object);
      } catch (const std::exception& error) {  // what nlohmann-json throws about wrong types
        parsed = fail(ErrorCode::kInvalid, error.what());
      }
      if (parsed) return std::make_shared<const T>(std::move(*parsed));
      detail::report_unusable(options_, key, parsed.error());
      return nullptr;
    }

    ReflectorOptions options_;
    Parse parse_;
    Store<T>& store_;
    std::vector<typename Store<T>::Item> kept_;  // null: gone
    size_t pages_ = 0;                           // of kept_, what came in whole pages
  };

  Sink sink_;
  detail::ReflectorDriver driver_;
};

// Waits until all are true, checking each 100 ms; false when the time is over or it was cancelled.
bool wait_for_sync(const std::vector<std::function<bool()>>& synced, Duration time,
                   const Cancellation& cancel);

}  // namespace compilecache::kube
