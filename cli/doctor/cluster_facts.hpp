#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cli/doctor/findings.hpp"
#include "operator/settings/settings.hpp"

// What `doctor` has read of a cluster. An error says why something could not be read; that is never
// taken for an absent object.

namespace compilecache::cli {

// A pod that the API server was asked to create, as a dry run.
struct TriedPod {
  Result<nlohmann::json> pod;
  bool with_cache = false;  // it names a CompileCache that is Ready; else it is in mode ForceCold
};

// Whether the user may create objects that an installation has.
struct Right {
  std::string what;  // "customresourcedefinitions"
  Result<bool> allowed;
};

struct ClusterFacts {
  std::string ns;           // that pods will run in
  std::string operator_ns;  // where the operator is, or will be
  bool preflight = false;   // before an installation
  WallTime now{};
  std::string plugin_version;
  controller::Settings settings;  // the operator's, where they could be read

  Result<nlohmann::json> server;  // of /version
  Result<nlohmann::json> group;   // of /apis/compilecache.dev; kNotFound: not installed
  // The objects, as lists.
  Result<nlohmann::json> operators;  // Deployments
  Result<nlohmann::json> webhooks;   // MutatingWebhookConfigurations
  Result<nlohmann::json> endpoints;  // EndpointSlices of the webhook's Service
  Result<nlohmann::json> nodes, storage_classes;
  Result<nlohmann::json> claims, caches, network_policies, limit_ranges, quotas;  // of `ns`
  Result<nlohmann::json> ns_object, operator_ns_object;
  // The operator's Secret with its certificates, and its registry; kNotFound: not installed.
  Result<nlohmann::json> certificates, registry_service, registry_deployment;
  std::optional<TriedPod> tried;  // nothing: it was not tried
  std::vector<Right> rights;      // of a preflight

  [[nodiscard]] bool installed() const { return group.has_value(); }
  // One that the operator knows, for a pod that is only tried.
  [[nodiscard]] std::string sample_framework() const {
    if (settings.frameworks.empty() || settings.frameworks.contains("torch")) return "torch";
    return settings.frameworks.begin()->first;
  }
};

// Why something was not checked: "not allowed to list nodes: not checked", or the error.
Finding unread(const std::string& check, const Error& error, const std::string& what);

}  // namespace compilecache::cli
