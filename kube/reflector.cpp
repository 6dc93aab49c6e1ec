#include "kube/reflector.hpp"

#include <nlohmann/json.hpp>
#include <thread>

#include "base/free_memory.hpp"
#include "base/log.hpp"
#include "base/mutex.hpp"
#include "kube/json.hpp"
#include "kube/reflector_machine.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;
namespace rf = reflector;

bool says_too_large(const std::string& message) {
  // The server answers 504 Timeout; only its message tells this case apart. Source:
  // apiserver's pkg/storage/errors.go.
  return message.find("Too large resource version") != std::string::npos;
}

rf::Failure failure_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kThrottled:
      return rf::Failure::kThrottled;
    case ErrorCode::kExpired:
      return rf::Failure::kExpired;
    case ErrorCode::kTimeout:
      return says_too_large(error.message) ? rf::Failure::kTooLarge : rf::Failure::kOther;
    default:
      return rf::Failure::kOther;
  }
}

rf::WatchEnded ended(const StreamEnd& end, const std::string& doing) {
  using Kind = StreamEnd::Kind;
  switch (end.kind) {
    case Kind::kClosed:
    case Kind::kStopped:
    case Kind::kCancelled:
      return {rf::WatchEnd::kClosed, {}, "closed by the server"};
    case Kind::kStatus: {
      const Error error = api_error(end.response, doing);
      return {rf::WatchEnd::kNotStarted, failure_of(error), error.message};
    }
    case Kind::kRefused:
      return {rf::WatchEnd::kNotStarted, rf::Failure::kRefused, end.message};
    case Kind::kTimeout:
    case Kind::kBroken:
      break;
  }
  return {rf::WatchEnd::kBroken, {}, end.message};
}

// The wanted fields of a line of a watch: those of the event's object, and those that say that an
// error occurred or that the present objects are complete.
Fields line_fields(const Fields& object) {
  return object.within("object", {"/type", "/object/code", "/object/reason", "/object/message",
                                  "/object/metadata/annotations/k8s.io~1initial-events-end"});
}

rf::WatchError watch_error(const Json& status) {
  const auto code = status.is_object() ? status.find("code") : status.end();
  HttpResponse response;
  response.status = status.is_object() && code != status.end() && code->is_number_integer()
                        ? code->get<int>()
                        : 500;
  response.body = status.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Error error = api_error(response, "watching");
  return {failure_of(error), error.message};
}

}  // namespace

namespace detail {

struct ReflectorDriver::Impl {
  Impl(const Client& c, ReflectorOptions o, ReflectorSink& s, const Clock& k, Random r)
      : client(c.with_cancel(cancel)),
        options(std::move(o)),
        fields_of_line(line_fields(options.fields)),
        sink(s),
        clock(k),
        random(std::move(r)) {
    state.watch_list = options.watch_list;
  }

  const Cancellation cancel;
  const Client client;
  const ReflectorOptions options;
  const Fields fields_of_line;
  ReflectorSink& sink;
  const Clock& clock;
  const Random random;
  std::thread thread;
  mutable Mutex mutex;
  ReflectorHealth health GUARDED_BY(mutex);
  std::optional<Monotonic> heard GUARDED_BY(mutex);

  // Only the reflector's thread uses these.
  rf::State state;
  Json event;  // what Keep and Apply mean
  rf::EventType event_type = rf::EventType::kAdded;

  void run();
  // Takes one input in and does what follows; the answer to the last action is the next input.
  std::optional<rf::Input> take(const rf::Input& input);
  std::optional<rf::Input> act(const rf::Action& action);
  rf::Input list(const rf::List& what);
  rf::Input watch(const rf::Watch& what);
  bool on_line(std::string_view line);
  std::optional<rf::Input> read_event(std::string_view line);
  void apply();
  void replace();
  void report(const std::string& message);
};

void ReflectorDriver::Impl::run() {
  rf::Input input = rf::Start{};
  while (!cancel.cancelled()) {
    std::optional<rf::Input> next = take(input);
    if (!next) return;
    input = std::move(*next);
  }
}

std::optional<rf::Input> ReflectorDriver::Impl::take(const rf::Input& input) {
  rf::Step step = rf::step(std::move(state), input, clock.monotonic(), random);
  state = std::move(step.state);
  std::optional<rf::Input> next;
  for (const rf::Action& action : step.actions) {
    if (cancel.cancelled()) return std::nullopt;
    if (auto answer = act(action)) next = std::move(answer);
  }
  return next;
}

std::optional<rf::Input> ReflectorDriver::Impl::act(const rf::Action& action) {
  if (const auto* what = std::get_if<rf::List>(&action)) return list(*what);
  if (const auto* what = std::get_if<rf::Watch>(&action)) return watch(*what);
  if (const auto* what = std::get_if<rf::Wait>(&action)) {
    if (options.wait ? options.wait(what->time) : cancel.wait_for(what->time)) return std::nullopt;
    return rf::Waited{};
  }
  if (const auto* what = std::get_if<rf::Report>(&action)) report(what->message);
  if (std::holds_alternative<rf::KeepPage>(action)) sink.keep_page();
  if (std::holds_alternative<rf::Keep>(action)) {
    event_type == rf::EventType::kDeleted ? sink.forget(event) : sink.keep(event);
    event = Json();
  }
  if (std::holds_alternative<rf::Drop>(action)) sink.drop();
  if (std::holds_alternative<rf::Apply>(action)) apply();
  if (std::holds_alternative<rf::Replace>(action)) replace();
  return std::nullopt;
}

void ReflectorDriver::Impl::replace() {
  sink.replace();
  return_free_memory();  // that parsing so many objects took
  const MutexLock lock(mutex);
  heard = clock.monotonic();
  health.synced = true;
  ++health.syncs;
  health.resource_version = state.last_version;
}

rf::Input ReflectorDriver::Impl::list(const rf::List& what) {
  if (what.continue_token.empty()) {
    const MutexLock lock(mutex);
    ++health.lists;
  }
  ListOptions list_options{.ns = options.ns,
                           .label_selector = options.label_selector,
                           .field_selector = options.field_selector,
                           .limit = what.limit,
                           .continue_token = what.continue_token,
                           .resource_version = what.resource_version,
                           .metadata_only = options.metadata_only};
  const Client::PageHandler page{[this] { sink.begin_page(); },
                                 [this](const Json& item) {
                                   if (!key_of(item).empty()) sink.keep(item);
                                 }};
  Result<ListHead> head = client.list(options.resource, list_options, options.fields, page);
  if (!head) return rf::ListFailed{failure_of(head.error()), head.error().message};
  return rf::ListPage{head->resource_version, head->continue_token};
}

rf::Input ReflectorDriver::Impl::watch(const rf::Watch& what) {
  {
    const MutexLock lock(mutex);
    ++health.watches;
  }
  WatchOptions watch_options{.ns = options.ns,
                             .label_selector = options.label_selector,
                             .field_selector = options.field_selector,
                             .resource_version = what.resource_version,
                             .timeout = what.timeout,
                             .idle_timeout = options.idle_timeout,
                             .start_timeout = options.start_timeout,
                             .tick = rf::kBookmarkWarning,
                             .send_initial_events = what.initial_events,
                             .metadata_only = options.metadata_only,
                             .protobuf = options.protobuf != nullptr};
  const StreamEnd end = client.watch(
      options.resource, watch_options, [&](std::string_view line) { return on_line(line); },
      cancel);
  return ended(end, "watching " + options.resource.plural);
}

// False when the machine wants no more of this watch.
bool ReflectorDriver::Impl::on_line(std::string_view line) {
  const std::optional<rf::Input> input =
      line.empty() ? std::optional<rf::Input>(rf::Tick{}) : read_event(line);
  if (!input) return true;
  rf::Step step = rf::step(std::move(state), *input, clock.monotonic(), random);
  state = std::move(step.state);
  bool more = true;
  for (const rf::Action& action : step.actions) {
    if (std::holds_alternative<rf::StopWatch>(action)) more = false;
    act(action);
  }
  const MutexLock lock(mutex);
  if (std::holds_alternative<rf::WatchEvent>(*input)) heard = clock.monotonic();
  health.resource_version = state.last_version;
  return more;
}

// The event, kept in `event`; nothing when the line is none.
std::optional<rf::Input> ReflectorDriver::Impl::read_event(std::string_view line) {
  const bool text = options.protobuf == nullptr || line.starts_with('{');
  Json parsed = text ? parse_json(line, fields_of_line)
                     : protobuf::parse_event(line, *options.protobuf, fields_of_line);
  const std::string type = string_at(parsed, {"type"});
  if (type.empty() || !parsed.contains("object")) {
    report(text ? "a line of the watch is no event: " + std::string(line.substr(0, 200))
                : "a frame of the watch is no event, of " + std::to_string(line.size()) + " bytes");
    return std::nullopt;
  }
  event = std::move(parsed["object"]);
  if (type == "ERROR") return watch_error(event);
  if (type == "ADDED") {
    event_type = rf::EventType::kAdded;
  } else if (type == "MODIFIED") {
    event_type = rf::EventType::kModified;
  } else if (type == "DELETED") {
    event_type = rf::EventType::kDeleted;
  } else if (type == "BOOKMARK") {
    event_type = rf::EventType::kBookmark;
  } else {
    report("an event of unknown type: " + type);
    return std::nullopt;
  }
  if (event_type != rf::EventType::kBookmark && key_of(event).empty()) {
    report("an event without an object's name");
    return std::nullopt;
  }
  const std::string kind = string_at(event, {"kind"});
  const std::string wanted =
      options.metadata_only ? "PartialObjectMetadata" : options.resource.kind;
  if (!kind.empty() && !wanted.empty() && kind != wanted) {
    report("an event of a " + kind + " in a watch of " + options.resource.plural);
    return std::nullopt;
  }
  const std::string end =
      string_at(event, {"metadata", "annotations", "k8s.io/initial-events-end"});
  return rf::WatchEvent{event_type, string_at(event, {"metadata", "resourceVersion"}),
                        end == "true"};
}

void ReflectorDriver::Impl::apply() {
  if (event_type == rf::EventType::kDeleted) {
    sink.erase(event);
  } else {
    sink.upsert(event);
  }
  event = Json();
  const MutexLock lock(mutex);
  ++health.events;
}

void ReflectorDriver::Impl::report(const std::string& message) {
  log_warn("reflector", {{"resource", options.resource.plural}, {"error", message}});
  const MutexLock lock(mutex);
  health.last_error = message;
}

ReflectorDriver::ReflectorDriver(const Client& client, ReflectorOptions options,
                                 ReflectorSink& sink, const Clock& clock, Random random) {
  impl_ = std::make_unique<Impl>(client, std::move(options), sink, clock, std::move(random));
}

ReflectorDriver::~ReflectorDriver() { stop(); }

void ReflectorDriver::start() {
  if (!impl_->thread.joinable()) impl_->thread = std::thread([this] { impl_->run(); });
}

void ReflectorDriver::stop() {
  impl_->cancel.cancel();
  if (impl_->thread.joinable()) impl_->thread.join();
}

ReflectorHealth ReflectorDriver::health() const {
  const MutexLock lock(impl_->mutex);
  return impl_->health;
}

std::optional<Monotonic> ReflectorDriver::heard() const {
  const MutexLock lock(impl_->mutex);
  return impl_->heard;
}

std::string key_of(const Json& object) {
  const std::string name = string_at(object, {"metadata", "name"});
  if (name.empty()) return "";
  return object_key(string_at(object, {"metadata", "namespace"}), name);
}

void report_unusable(const ReflectorOptions& options, const std::string& key, const Error& error) {
  log_warn("object cannot be used and is left out",
           {{"resource", options.resource.plural}, {"key", key}, {"error", error.message}});
}

}  // namespace detail

bool wait_for_sync(const std::vector<std::function<bool()>>& synced, Duration time,
                   const Cancellation& cancel) {
  constexpr Duration kLook = std::chrono::milliseconds(100);  // as client-go
  for (Duration waited{0}; waited <= time; waited += kLook) {
    bool all = true;
    for (const auto& one : synced) all = all && one();
    if (all) return true;
    if (cancel.wait_for(kLook)) return false;
  }
  return false;
}

}  // namespace compilecache::kube
