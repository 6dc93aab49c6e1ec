#pragma once

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

// The QoS class that a pod gets, reckoned as Kubernetes does it (ComputePodQOS of
// pkg/apis/core/v1/helper/qos, after the API server has filled requests in from limits), and not by
// the webhook's own code.

namespace compilecache::webhook::testing {

inline double amount_of(const nlohmann::json& quantity) {
  if (quantity.is_number()) return quantity.get<double>();
  static const std::map<std::string, double> kUnits{{"", 1},
                                                    {"m", 1e-3},
                                                    {"k", 1e3},
                                                    {"M", 1e6},
                                                    {"G", 1e9},
                                                    {"Ki", 1024},
                                                    {"Mi", std::pow(2, 20)},
                                                    {"Gi", std::pow(2, 30)},
                                                    {"Ti", std::pow(2, 40)}};
  size_t end = 0;
  const std::string text = quantity.get<std::string>();
  const double number = std::stod(text, &end);
  return number * kUnits.at(text.substr(end));
}

// Adds what counts, and is not zero, of {"cpu": "1", ...}.
inline void count_amounts(const nlohmann::json& list, std::map<std::string, double>& sums) {
  for (const char* name : {"cpu", "memory"}) {
    const double amount = list.contains(name) ? amount_of(list.at(name)) : 0;
    if (amount > 0) sums[name] += amount;
  }
}

// IsPodLevelResourcesSet of component-helpers/resource.
inline bool has_pod_level(const nlohmann::json& spec) {
  using nlohmann::json;
  const json resources = spec.value("resources", json::object());
  for (const char* list : {"requests", "limits"}) {
    const json amounts = resources.value(list, json::object());
    for (const auto& [name, amount] : amounts.items()) {
      if (name == "cpu" || name == "memory" || name.starts_with("hugepages-")) return true;
    }
  }
  return false;
}

inline std::string kubernetes_qos(const nlohmann::json& pod) {
  using nlohmann::json;
  const json& spec = pod.at("spec");
  json each = json::array();
  if (has_pod_level(spec)) {
    each.push_back(spec);
  } else {
    for (const char* list : {"containers", "initContainers"}) {
      for (const json& container : spec.value(list, json::array())) each.push_back(container);
    }
  }
  std::map<std::string, double> requests, limits;
  bool guaranteed = true;
  for (const json& one : each) {
    const json resources = one.value("resources", json::object());
    const json own_limits = resources.value("limits", json::object());
    json own_requests = own_limits;
    own_requests.update(resources.value("requests", json::object()));
    count_amounts(own_requests, requests);
    std::map<std::string, double> found;
    count_amounts(own_limits, found);
    count_amounts(own_limits, limits);
    guaranteed = guaranteed && found.size() == 2;
  }
  if (requests.empty() && limits.empty()) return "BestEffort";
  return guaranteed && requests == limits ? "Guaranteed" : "Burstable";
}

}  // namespace compilecache::webhook::testing
