#pragma once

#include <memory>

#include "base/clock.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "operator/agents/agent_services.hpp"
#include "operator/settings/settings.hpp"

// The API that agents call (api/agent_api.hpp), as the handler of an http::Server. Its calls are in
// agent_routes.hpp, what they do in agent_services.hpp.
//
//   AgentApi agent_api(parts, settings, hooks, clock);
//   agent_api.start();  // worker threads; they wait for the API server
//   auto server = http::Server::start(options, [&](auto request, auto respond) {
//     agent_api.handle(std::move(request), std::move(respond));
//   });
//   ...
//   agent_api.stop();  // finishes what it has begun
//
// Only the leader serves it; others answer 503 with Retry-After. The caller's pod is taken from its
// token and must be alive and carry our injection (or be a sweep Job's pod). For any request, the
// answer is JSON as api/agent_api.hpp says. Thread-safe. All parts must outlive it.

namespace compilecache::controller {

class AgentApi {
 public:
  AgentApi(AgentApiParts parts, const Settings& settings, AgentApiHooks hooks, const Clock& clock);
  ~AgentApi();
  AgentApi(const AgentApi&) = delete;
  AgentApi& operator=(const AgentApi&) = delete;

  void start();
  void stop();

  // Call once, when this replica has become the leader and the stores are synced, before
  // is_leader() says so. Takes over the statuses, and gives every holder of a save lock one full
  // timeout.
  void take_over();

  // Queues the request for a worker, in turns with those of other addresses; answers 503 at once
  // when too many wait, 429 when too many of its own address do.
  void handle(http::Request request, http::Responder respond);
  // The answer itself, in this thread.
  [[nodiscard]] http::Response answer(const http::Request& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::controller
