#include "operator/agents/agent_api.hpp"

#include <utility>

#include "operator/agents/agent_answers.hpp"
#include "operator/agents/request_pool.hpp"

namespace compilecache::controller {

using http::Request;
using http::Response;

struct AgentApi::Impl {
  Impl(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks, const Clock& clock)
      : services(parts, settings, std::move(hooks), clock),
        pool(settings.limits.api_threads,
             [this](const Request& request) { return serve(request); }) {}

  Response serve(const Request& request);

  AgentServices services;
  RequestPool pool;
};

Response AgentApi::Impl::serve(const Request& request) {
  RouteMatch match;
  if (Response refused = find_call(request, match); refused.status != 0) return refused;
  if (!services.is_leader()) {
    return error_response(503, ErrorCode::kUnavailable,
                          "this replica is not the leader; try again, the Service leads there");
  }
  const auto caller = services.callers.identify(request.bearer_token().value_or(""), request.peer);
  if (!caller) return error_response(caller.error());
  return response_of(match.route->serve(services, *caller, match.id, request.body));
}

AgentApi::AgentApi(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks,
                   const Clock& clock)
    : impl_(std::make_unique<Impl>(parts, settings, std::move(hooks), clock)) {}

AgentApi::~AgentApi() { stop(); }

void AgentApi::start() { impl_->pool.start(); }

void AgentApi::stop() { impl_->pool.stop(); }

void AgentApi::take_over() { impl_->services.take_over(); }

void AgentApi::handle(Request request, http::Responder respond) {
  impl_->pool.handle(std::move(request), std::move(respond));
}

Response AgentApi::answer(const Request& request) { return impl_->pool.answer(request); }

}  // namespace compilecache::controller
