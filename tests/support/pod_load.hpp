#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "kube/client.hpp"

// Creates pods at a steady rate on a real API server while something else happens, and looks at
// each: was it created, was it injected?
//
//   PodLoad load(client_of_kubeconfig(), pod, 50, is_injected);
//   ... replace the webhook's replicas ...
//   const PodLoadResult result = load.stop();
//   EXPECT_EQ(result.refused + result.uninjected, 0) << result.first_problem;

namespace compilecache::testing {

struct PodLoadResult {
  int created = 0;
  int refused = 0;
  int uninjected = 0;
  std::string first_problem;
  double slowest_seconds = 0;
};

// For the cluster of $KUBECONFIG; throws when there is none.
kube::Client client_of_kubeconfig();

class PodLoad {
 public:
  using Predicate = std::function<bool(const nlohmann::json& created)>;

  // `pod` has a namespace and a generateName.
  PodLoad(kube::Client client, nlohmann::json pod, int per_second, Predicate is_injected);
  ~PodLoad();
  PodLoad(const PodLoad&) = delete;
  PodLoad& operator=(const PodLoad&) = delete;

  PodLoadResult stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace compilecache::testing
