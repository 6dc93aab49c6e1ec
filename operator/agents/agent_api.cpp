#include "operator/agents/agent_api.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.hpp"
#include "base/strings.hpp"
#include "operator/agents/agent_handlers.hpp"
#include "operator/agents/fair_queue.hpp"

namespace compilecache::controller {
namespace {

using http::Request;
using http::Response;

// Messages are a few hundred bytes; only a sweep's pages are long (5,000 blobs are 500 KB).
constexpr size_t kMaxBody = 256U << 10;
constexpr size_t kMaxSweepBody = 2U << 20;
// Requests that wait for a worker. With an answer in 20 ms and 8 workers that is 10 s of work.
constexpr size_t kMaxWaiting = 4096;
// ... of one address: a node's pods may share one, and each has two requests under way at most.
constexpr size_t kMaxWaitingOfOne = 256;

// Half of the workers are for others, however slow its requests are.
FairQueueLimits limits_for(int threads) {
  return {kMaxWaiting, kMaxWaitingOfOne, static_cast<size_t>(std::max(1, threads / 2))};
}

// Who sent it, before anybody has looked at the token: the address, without the port.
std::string sender_of(const Request& request) {
  return request.peer.substr(0, request.peer.rfind(':'));
}
constexpr char kRetryAfterSeconds[] = "2";

Response error_response(const Error& error) {
  Response response;
  response.status = api::http_status(error.code);
  response.body = api::error_body(error);
  if (response.status == 503 || response.status == 429) {
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  }
  return response;
}

Response error_response(int status, ErrorCode code, const std::string& message) {
  Response response = error_response({code, message});
  response.status = status;
  return response;
}

template <typename Message>
Response reply(const Result<Message>& result) {
  if (!result) return error_response(result.error());
  Response response;
  response.body = api::dump(*result);
  return response;
}

Response reply(const Status& status) {
  if (!status) return error_response(status.error());
  Response response;
  response.body = "{}";
  return response;
}

// Parses the body and hands it to `handle`.
template <typename Message, typename Handle>
Response with_message(const Request& request, Handle handle) {
  const auto message = api::parse<Message>(request.body);
  if (!message) return error_response(message.error());
  return reply(handle(*message));
}

// "/v1/saves/{id}" and "/v1/saves/{id}/commit"; `id` is empty when the path is neither.
struct SavePath {
  std::string id;
  bool commit = false;
};
SavePath save_path(const std::string& path) {
  constexpr std::string_view kPrefix = "/v1/saves/";
  if (!path.starts_with(kPrefix)) return {};
  const std::vector<std::string> parts = split(path.substr(kPrefix.size()), '/');
  if (parts.size() == 1) return {parts[0], false};
  if (parts.size() == 2 && parts[1] == "commit") return {parts[0], true};
  return {};
}

}  // namespace

struct AgentApi::Impl {
  struct Task {
    Request request;
    http::Responder respond;
  };

  Impl(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks, const Clock& clock)
      : handlers(parts, settings, std::move(hooks), clock),
        threads(settings.limits.api_threads),
        waiting(limits_for(threads)) {}

  Response route(const Request& request);
  Response route_message(const Request& request, const Caller& caller);
  Response route_save(const Request& request, const Caller& caller, const SavePath& path);
  Response safely(const Request& request);
  void work();

  AgentHandlers handlers;
  const int threads;
  std::mutex mutex;
  std::condition_variable wake;
  bool stopping = false;
  FairQueue<Task> waiting;
  std::vector<std::thread> workers;
};

Response AgentApi::Impl::route_save(const Request& request, const Caller& caller,
                                    const SavePath& path) {
  if (path.commit && request.method == "POST") {
    return with_message<api::CommitRequest>(
        request, [&](const auto& message) { return handlers.commit(caller, path.id, message); });
  }
  if (!path.commit && request.method == "PUT") {
    return with_message<api::RenewRequest>(
        request, [&](const auto& message) { return handlers.renew(caller, path.id, message); });
  }
  if (!path.commit && request.method == "DELETE") return reply(handlers.release(caller, path.id));
  return error_response(405, ErrorCode::kInvalid, request.method + " is not for " + request.path);
}

Response AgentApi::Impl::route_message(const Request& request, const Caller& caller) {
  if (request.path == "/v1/load") {
    return with_message<api::LoadRequest>(
        request, [&](const auto& message) { return handlers.load(caller, message); });
  }
  if (request.path == "/v1/loaded") {
    return with_message<api::LoadedReport>(
        request, [&](const auto& message) { return handlers.loaded(caller, message); });
  }
  if (request.path == "/v1/saves") {
    return with_message<api::SaveRequest>(
        request, [&](const auto& message) { return handlers.request_save(caller, message); });
  }
  if (request.path == "/v1/effect") {
    return with_message<api::EffectReport>(
        request, [&](const auto& message) { return handlers.effect(caller, message); });
  }
  return with_message<api::SweepRequest>(
      request, [&](const auto& message) { return handlers.sweep(caller, message); });
}

Response AgentApi::Impl::route(const Request& request) {
  const bool sweep = request.path == "/v1/sweeps";
  const bool message = sweep || request.path == "/v1/load" || request.path == "/v1/loaded" ||
                       request.path == "/v1/saves" || request.path == "/v1/effect";
  const SavePath save = save_path(request.path);
  if (!message && save.id.empty()) {
    return error_response(404, ErrorCode::kNotFound, "the agent API has no " + request.path);
  }
  if (message && request.method != "POST") {
    return error_response(405, ErrorCode::kInvalid, request.method + " is not for " + request.path);
  }
  if (request.body.size() > (sweep ? kMaxSweepBody : kMaxBody)) {
    return error_response(413, ErrorCode::kTooLarge, "the message is too large");
  }
  if (!handlers.is_leader()) {
    return error_response(503, ErrorCode::kUnavailable,
                          "this replica is not the leader; try again, the Service leads there");
  }
  const auto caller = handlers.caller(request.bearer_token().value_or(""), request.peer);
  if (!caller) return error_response(caller.error());
  return message ? route_message(request, *caller) : route_save(request, *caller, save);
}

Response AgentApi::Impl::safely(const Request& request) {
  try {
    return route(request);
  } catch (const std::exception& e) {
    log_error("a call of the agent API failed",
              {{"reason", "exception"}, {"path", request.path}, {"error", e.what()}});
    return error_response({ErrorCode::kInternal, "this is a bug of the operator; see its log"});
  }
}

void AgentApi::Impl::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    auto next = waiting.pop();
    if (!next) {
      if (stopping && waiting.empty()) return;
      wake.wait(lock);
      continue;
    }
    lock.unlock();
    next->work.respond(safely(next->work.request));
    lock.lock();
    waiting.done(next->sender);
    wake.notify_all();  // its sender may have been waiting for this one
  }
}

AgentApi::AgentApi(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                   const Clock& clock)
    : impl_(std::make_unique<Impl>(parts, settings, std::move(hooks), clock)) {}

AgentApi::~AgentApi() { stop(); }

void AgentApi::start() {
  for (int i = 0; i < impl_->threads; ++i) {
    impl_->workers.emplace_back([this] { impl_->work(); });
  }
}

void AgentApi::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
  impl_->workers.clear();
}

void AgentApi::take_over() { impl_->handlers.take_over(); }

void AgentApi::handle(Request request, http::Responder respond) {
  using Queue = FairQueue<Impl::Task>;
  const std::string sender = sender_of(request);
  Impl::Task task{std::move(request), std::move(respond)};
  Queue::Pushed pushed = Queue::Pushed::kFull;
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->stopping) pushed = impl_->waiting.push(sender, std::move(task));
  }
  if (pushed == Queue::Pushed::kYes) {
    impl_->wake.notify_one();
    return;
  }
  const bool of_one = pushed == Queue::Pushed::kTooManyOfOne;
  task.respond(
      of_one ? error_response(
                   {ErrorCode::kThrottled, "too many requests of " + sender + " wait; try again"})
             : error_response({ErrorCode::kUnavailable, "too many agents are asking; try again"}));
}

Response AgentApi::answer(const Request& request) { return impl_->safely(request); }

}  // namespace compilecache::controller
