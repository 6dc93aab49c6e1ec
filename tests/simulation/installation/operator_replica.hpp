#pragma once

#include <memory>
#include <string>

#include "http/server.hpp"
#include "operator/settings/settings.hpp"
#include "tests/simulation/cluster/api_server.hpp"
#include "tests/simulation/os/scheduler.hpp"

// One replica of the operator: its leader election, its leader session with all threads, its
// answers while it does not lead, its reflector of CompileCaches and the keeper of the registry are
// the product's own. It is a process that can be killed and started again, as a Deployment would.

namespace compilecache::simulation {

struct ReplicaOptions {
  std::string name;     // of its pod: "operator-0"
  std::string address;  // in the EndpointSlice, when it leads: "10.1.0.1"
  std::string ns;       // the operator's namespace
  controller::Settings settings;
};

class OperatorReplica {
 public:
  OperatorReplica(ApiServer& api, ReplicaOptions options);

  // Starts a process; what an earlier one held in memory is gone.
  void start();
  // As SIGKILL of the container.
  void kill();
  // As SIGSTOP, and SIGCONT after that time.
  void freeze(int64_t duration);
  // How far its node's clock is ahead.
  void set_clock_offset(int64_t offset);
  [[nodiscard]] bool is_alive() const;
  [[nodiscard]] bool leads() const;
  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] const std::string& address() const { return options_.address; }

  // Serves a request of an agent in a thread of the replica's process. False: nothing listens.
  bool serve(http::Request request, http::Responder respond);
  // The same for a review of the API server's, while the replica is ready.
  bool review(http::Request request, http::Responder respond);

 private:
  struct Running;

  ApiServer& api_;
  const ReplicaOptions options_;
  ProcessId process_ = kWorld;  // kWorld: none yet
  int64_t clock_offset_ = 0;
  Running* running_ = nullptr;  // of the process: never freed, like its memory
};

}  // namespace compilecache::simulation
