#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"

// The LimitRanges and ResourceQuotas of a namespace, as slim structs, which hold what our
// containers ask for and nothing else: cpu, memory and ephemeral-storage.
//
//   NamespaceFacts facts;
//   facts.quotas.push_back(*parse_resource_quota(object));
//
// Pure functions; safe from any thread.

namespace compilecache::webhook {

// Maps a resource's name to an amount in thousandths of its unit.
using Amounts = std::map<std::string, int64_t>;

// One item of a LimitRange's spec.limits, of type Container or Pod.
struct LimitRule {
  bool for_pod = false;  // the sum over a pod's containers, else each container
  Amounts min, max, default_limit, default_request;
  Amounts max_ratio;  // of limit to request

  // Whether a container without a request (a limit) for this resource is given one, or refused.
  [[nodiscard]] bool demands_request(const std::string& resource) const;
  [[nodiscard]] bool demands_limit(const std::string& resource) const;
};

inline constexpr size_t kMostPriorityClasses = 64;

// A ResourceQuota, names normalized: "cpu" and "requests.cpu" are the same, and of both the smaller
// counts.
struct Quota {
  std::string name;
  Amounts hard, used;  // keys "requests.cpu", "limits.memory", ...
  std::vector<std::string>
      scopes;  // "Terminating", "NotTerminating", "BestEffort", "NotBestEffort"
  // PriorityClasses from scopeSelector: only their pods count. Empty: all pods count, as they do
  // here where there are more than kMostPriorityClasses.
  std::vector<std::string> priority_classes;
};

struct NamespaceFacts {
  std::vector<LimitRule> limits;
  std::vector<Quota> quotas;
};

// Items of other types (PersistentVolumeClaim), other resources and amounts that cannot be read are
// left out. They never fail; the functions beside them name the fields that they read
// (kube::ReflectorOptions::fields).
Result<std::vector<LimitRule>> parse_limit_range(const nlohmann::json& object);
std::vector<std::string> limit_range_fields();
Result<Quota> parse_resource_quota(const nlohmann::json& object);
std::vector<std::string> resource_quota_fields();

}  // namespace compilecache::webhook
