#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "operator/agents/agent_services.hpp"
#include "operator/agents/follower_loads.hpp"

// The calls of the agent API: one table, by which requests are routed and bounded, and of which
// docs/design/agent-api.md is made.
//
//   const RouteMatch match = find_route("POST", "/v1/saves/transformer-1.17/commit");
//   if (match.route != nullptr) match.route->serve(services, caller, match.id, body);
//
// A new call: its messages (api/agent_api.hpp), a method of a service, a row here, a method of the
// agents' client (agent/coordinator.hpp). Pure but for serve(); safe from any thread.

namespace compilecache::controller {

// The documentation of a message of api/agent_api.hpp.
struct MessageDoc {
  std::string_view (*name)();  // "LoadRequest"
  std::string (*fields)();     // JSON with nothing said
};

struct Route {
  std::string_view method;
  std::string_view path;  // "{id}" stands for any one part
  size_t longest_body;    // bytes; a longer one is refused before anybody looks at it
  std::optional<MessageDoc> message, answer;  // nothing: an empty body, {}
  std::string_view says;                      // for people, a sentence
  // Reads the message, asks the service, and returns the answer's JSON.
  Result<std::string> (*serve)(AgentServices& services, const Caller& caller, const std::string& id,
                               const std::string& body);
  // The same on a replica that does not lead; null: the leader alone answers this call.
  Result<std::string> (*serve_anywhere)(FollowerServices& services, const Caller& caller,
                                        const std::string& id, const std::string& body) = nullptr;

  // This call, which every replica answers.
  [[nodiscard]] constexpr Route anywhere(decltype(serve_anywhere) serve_there) const {
    Route everywhere = *this;
    everywhere.serve_anywhere = serve_there;
    return everywhere;
  }
};

std::span<const Route> agent_routes();

struct RouteMatch {
  const Route* route = nullptr;  // nullptr: there is none for that method
  std::string id;
  bool path_known = false;  // for another method, if not for this one
};
RouteMatch find_route(std::string_view method, std::string_view path);

// The longest body of any call: more need not be read.
size_t longest_agent_message();

// The generated part of docs/design/agent-api.md.
std::string describe_routes();

}  // namespace compilecache::controller
