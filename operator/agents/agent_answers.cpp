#include "operator/agents/agent_answers.hpp"

#include <utility>

#include "api/agent_api.hpp"

namespace compilecache::controller {
namespace {

constexpr char kRetryAfterSeconds[] = "2";

}  // namespace

http::Response error_response(const Error& error) {
  http::Response response;
  response.status = api::http_status(error.code);
  response.body = api::error_body(error);
  if (response.status == 503 || response.status == 429) {
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  }
  return response;
}

http::Response error_response(int status, ErrorCode code, const std::string& message) {
  http::Response response = error_response({code, message});
  response.status = status;
  return response;
}

http::Response find_call(const http::Request& request, RouteMatch& match) {
  match = find_route(request.method, request.path);
  if (!match.path_known) {
    return error_response(404, ErrorCode::kNotFound, "the agent API has no " + request.path);
  }
  if (match.route == nullptr) {
    return error_response(405, ErrorCode::kInvalid, request.method + " is not for " + request.path);
  }
  if (request.body.size() > match.route->longest_body) {
    return error_response(413, ErrorCode::kTooLarge, "the message is too large");
  }
  http::Response fine;
  fine.status = 0;
  return fine;
}

http::Response response_of(Result<std::string> answer) {
  if (!answer) return error_response(answer.error());
  http::Response response;
  response.body = std::move(*answer);
  return response;
}

}  // namespace compilecache::controller
