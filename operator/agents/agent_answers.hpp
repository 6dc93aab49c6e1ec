#pragma once

#include <string>

#include "base/error.hpp"
#include "http/message.hpp"
#include "operator/agents/agent_routes.hpp"

// HTTP around the calls of agents, on every replica (operator/agents/agent_api, load_desk).
//
//   RouteMatch call;
//   if (auto refused = find_call(request, call); refused.status != 0) return refused;
//   return response_of(call.route->serve(services, caller, call.id, request.body));
//
// Pure; safe from any thread.

namespace compilecache::controller {

// With Retry-After where it is worth asking again.
http::Response error_response(const Error& error);
http::Response error_response(int status, ErrorCode code, const std::string& message);

// Refuses a request that does not fit the table of calls (404, 405, 413). Status 0: it fits, and
// `match` is the call.
http::Response find_call(const http::Request& request, RouteMatch& match);

// The answer with that JSON, or of the error.
http::Response response_of(Result<std::string> answer);

}  // namespace compilecache::controller
