#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/cluster/api_server.hpp"
#include "tests/simulation/installation/operator_replica.hpp"
#include "tests/simulation/installation/pods.hpp"
#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/network/network.hpp"
#include "tests/simulation/registry/simulated_registry.hpp"

// One whole installation: the API server, the installation's own registry, two replicas of the
// operator, the kubelet's and the controllers' parts that they need, and the invariants.
//
//   World world(options);     // inside run_scheduled()
//   start_faults(world, draw_faults(days));  // faults/
//   start_tenants(world, 4);                 // tenants/
//   world.pass(days);         // judges each hour
//   if (!world.violations().empty()) …

namespace compilecache::simulation {

struct WorldOptions {
  std::string settings_file;  // config/settings.yaml
  std::string folder;         // for pods' files; empty and the run's own
};

struct Violation {
  int64_t at_ns = 0;
  std::string sentence, detail;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void pass(int64_t days);

  // As a user: kubectl apply, and delete with all that it owns.
  void create_cache(const std::string& ns, const std::string& name, const std::string& retention);
  void delete_cache(const std::string& ns, const std::string& name);

  // A fault begins that lasts so long.
  void trouble(const char* kind, int64_t duration);
  // The registry's pod is replaced: down, collected in an init container, up again.
  void restart_registry();

  ApiServer api;
  SimulatedRegistry registry;
  // A namespace of which no invariant is judged.
  void set_hostile(const std::string& ns) { view_.hostile = ns; }
  Pods& pods() { return *pods_; }
  std::vector<std::unique_ptr<OperatorReplica>>& replicas() { return replicas_; }
  // Called at each violation.
  std::function<void(const Violation&)> on_violation;
  [[nodiscard]] const std::vector<Violation>& violations() const { return violations_; }
  // As they were last written, by "namespace/name".
  [[nodiscard]] const std::map<std::string, api::CompileCacheArchive>& archives() const {
    return archives_;
  }
  [[nodiscard]] int64_t registry_restarts() const { return registry_restarts_; }
  [[nodiscard]] int64_t blobs_collected() const { return blobs_collected_; }

 private:
  void make_objects();
  void serve_agent(const std::string& address, http::Request request, http::Responder respond);
  OperatorReplica* replica_behind(const std::string& address);
  void answered(const AnsweredCall& call);
  void wrote(const std::string& method, const std::string& path);
  void archive_written(const std::string& path);
  void archive_deleted(const std::string& path);
  void set_registry_ready(bool ready);

  WorldView view_{.api = api, .registry = registry};
  std::vector<std::unique_ptr<Invariant>> invariants_;
  std::map<std::string, api::CompileCacheArchive> archives_;  // as last written
  std::vector<Violation> violations_;
  std::vector<std::unique_ptr<OperatorReplica>> replicas_;
  std::unique_ptr<Pods> pods_;
  int64_t registry_restarts_ = 0;
  int64_t blobs_collected_ = 0;
  Chance services_{"Services"};
};

}  // namespace compilecache::simulation
