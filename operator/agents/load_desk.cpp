#include "operator/agents/load_desk.hpp"

#include <algorithm>
#include <utility>

#include "operator/agents/agent_answers.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/follower_loads.hpp"
#include "operator/agents/request_pool.hpp"

namespace compilecache::controller {

struct LoadDesk::Impl {
  Impl(LoadDeskParts given, const Settings& settings, const Clock& clock)
      : parts(std::move(given)),
        fresh({parts.archives, parts.heard, FreshArchives::Ask::kAlways}, clock),
        // Pods that never call are the leader's matter, and so are sweep Jobs.
        callers(parts.view, parts.auth, {{}, parts.fetch_pod, parts.devices, {}}),
        services{FollowerLoads({parts.view, settings, parts.traffic, fresh}),
                 FollowerTokens({parts.view, settings, parts.minter, nullptr})},
        pool(settings.limits.api_threads,
             [this](const http::Request& request) { return serve(request); }) {}

  http::Response serve(const http::Request& request);

  const LoadDeskParts parts;
  const FreshArchives fresh;
  const Callers callers;
  FollowerServices services;
  RequestPool pool;
};

http::Response LoadDesk::Impl::serve(const http::Request& request) {
  RouteMatch match;
  if (http::Response refused = find_call(request, match); refused.status != 0) return refused;
  if (match.route->serve_anywhere == nullptr || !parts.has_synced()) {
    return error_response(
        {ErrorCode::kUnavailable, "this replica of the operator does not lead (yet); try again"});
  }
  // An object that this replica does not know yet may exist all the same, as a sweep Job.
  const auto refuse = [](Error error) {
    const bool unknown = error.code == ErrorCode::kNotFound || error.code == ErrorCode::kForbidden;
    if (unknown) error.code = ErrorCode::kUnavailable;
    return error_response(error);
  };
  const auto caller = callers.identify(request.bearer_token().value_or(""), request.peer);
  if (!caller) return refuse(caller.error());
  auto answer = match.route->serve_anywhere(services, *caller, match.id, request.body);
  if (!answer) return refuse(answer.error());
  return response_of(std::move(answer));
}

LoadDesk::LoadDesk(LoadDeskParts parts, const Settings& settings, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(parts), settings, clock)) {}

LoadDesk::~LoadDesk() { stop(); }

void LoadDesk::start() { impl_->pool.start(); }

void LoadDesk::stop() { impl_->pool.stop(); }

void LoadDesk::handle(http::Request request, http::Responder respond) {
  impl_->pool.handle(std::move(request), std::move(respond));
}

http::Response LoadDesk::answer(const http::Request& request) const {
  return impl_->pool.answer(request);
}

int LoadDesk::places(const Settings& settings) {
  return std::max(1, settings.limits.max_concurrent_loads / 2);
}

}  // namespace compilecache::controller
