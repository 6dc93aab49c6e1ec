#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "http/server.hpp"
#include "tests/simulation/registry/simulated_registry.hpp"

// What http::Session and http::Client reach in the simulation. `http_stand_ins.cpp` defines those
// two classes for this program in place of http/'s, so that registry clients, their retries,
// tokens and streams, and the agents' client are the product's own from there on.

namespace compilecache::simulation {

// A call of the agent API whose answer has reached the agent.
struct AnsweredCall {
  int64_t began_ns = 0;
  http::Request request;
  http::Response response;
};

struct Network {
  SimulatedRegistry* registry = nullptr;
  // The agent API of the replica that the Service of that address leads to.
  std::function<void(const std::string& address, http::Request, http::Responder)> agent_api;
  std::function<void(const AnsweredCall&)> answered;
  uint64_t agent_requests = 0;
};

// The one network of the program; everything is set before anything is sent.
Network& network();

}  // namespace compilecache::simulation
