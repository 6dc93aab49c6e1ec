#include "operator/agents/agent_api.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "operator/agents/agent_routes.hpp"
#include "operator/agents/fair_queue.hpp"

namespace compilecache::controller {
namespace {

using http::Request;
using http::Response;

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

}  // namespace

struct AgentApi::Impl {
  struct Task {
    Request request;
    http::Responder respond;
  };

  Impl(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks, const Clock& clock)
      : services(parts, settings, std::move(hooks), clock),
        threads(settings.limits.api_threads),
        waiting(limits_for(threads)) {}

  Response serve(const Request& request);
  Response safely(const Request& request);
  void work();

  AgentServices services;
  const int threads;
  Mutex mutex;
  CondVar wake;
  bool stopping GUARDED_BY(mutex) = false;
  FairQueue<Task> waiting GUARDED_BY(mutex);
  std::vector<std::thread> workers;
};

Response AgentApi::Impl::serve(const Request& request) {
  const RouteMatch match = find_route(request.method, request.path);
  if (!match.path_known) {
    return error_response(404, ErrorCode::kNotFound, "the agent API has no " + request.path);
  }
  if (match.route == nullptr) {
    return error_response(405, ErrorCode::kInvalid, request.method + " is not for " + request.path);
  }
  if (request.body.size() > match.route->longest_body) {
    return error_response(413, ErrorCode::kTooLarge, "the message is too large");
  }
  if (!services.is_leader()) {
    return error_response(503, ErrorCode::kUnavailable,
                          "this replica is not the leader; try again, the Service leads there");
  }
  const auto caller = services.callers.identify(request.bearer_token().value_or(""), request.peer);
  if (!caller) return error_response(caller.error());
  auto answer = match.route->serve(services, *caller, match.id, request.body);
  if (!answer) return error_response(answer.error());
  Response response;
  response.body = std::move(*answer);
  return response;
}

Response AgentApi::Impl::safely(const Request& request) {
  try {
    return serve(request);
  } catch (const std::exception& e) {
    log_error("a call of the agent API failed",
              {{"reason", "exception"}, {"path", request.path}, {"error", e.what()}});
    return error_response({ErrorCode::kInternal, "this is a bug of the operator; see its log"});
  }
}

void AgentApi::Impl::work() {
  MutexLock lock(mutex);
  for (;;) {
    auto next = waiting.pop();
    if (!next) {
      if (stopping && waiting.empty()) return;
      wake.wait(mutex);
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
    const MutexLock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
  impl_->workers.clear();
}

void AgentApi::take_over() { impl_->services.take_over(); }

void AgentApi::handle(Request request, http::Responder respond) {
  using Queue = FairQueue<Impl::Task>;
  const std::string sender = sender_of(request);
  Impl::Task task{std::move(request), std::move(respond)};
  Queue::Pushed pushed = Queue::Pushed::kFull;
  {
    const MutexLock lock(impl_->mutex);
    if (!impl_->stopping) pushed = impl_->waiting.push(sender, std::move(task));
  }
  if (pushed == Queue::Pushed::kYes) {
    impl_->wake.notify_one();
    return;
  }
  const bool of_one = pushed == Queue::Pushed::kTooManyOfOne;
  // push() takes the task only where it answers kYes. NOLINTNEXTLINE(bugprone-use-after-move)
  task.respond(
      of_one ? error_response(
                   {ErrorCode::kThrottled, "too many requests of " + sender + " wait; try again"})
             : error_response({ErrorCode::kUnavailable, "too many agents are asking; try again"}));
}

Response AgentApi::answer(const Request& request) { return impl_->safely(request); }

}  // namespace compilecache::controller
