#include <algorithm>

#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "cli/cluster/label_match.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/text/json_at.hpp"
#include "frameworks/glob.hpp"

// Of what an installation finds in the cluster.

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr size_t kMostNamed = 5;
constexpr int kOldestKubelet = 30;
constexpr int kAgentPort = 9444;

std::string name_of(const json& object) { return text_in(object, "/metadata/name"); }

// "a, b and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  if (names.size() <= kMostNamed) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNamed);
  return join(first, ", ") + " and " + std::to_string(names.size() - kMostNamed) + " more";
}

bool has_gpu(const json& node, const std::vector<std::string>& resources) {
  const json& allocatable = at(node, "/status/allocatable");
  if (!allocatable.is_object()) return false;
  for (const auto& item : allocatable.items()) {
    const json& amount = item.value();
    const bool gpu = std::any_of(resources.begin(), resources.end(), [&](const auto& pattern) {
      return frameworks::name_matches(pattern, item.key());
    });
    if (gpu && amount.is_string() &&
        parse_quantity_milli(amount.get<std::string>()).value_or(0) > 0) {
      return true;
    }
  }
  return false;
}

bool has_any_label(const json& node, const std::vector<std::string>& names) {
  const json& labels = at(node, "/metadata/labels");
  return std::any_of(names.begin(), names.end(),
                     [&](const auto& name) { return labels.is_object() && labels.contains(name); });
}

// "v1.29.4" is; a version that cannot be read is taken for new enough.
bool is_old(const std::string& kubelet) {
  const auto parts = split(kubelet, '.');
  return parts.size() > 1 && parts[0] == "v1" && std::atoi(parts[1].c_str()) > 0 &&
         std::atoi(parts[1].c_str()) < kOldestKubelet;
}

Finding check_claim(const json& claim) {
  const std::string phase = text_in(claim, "/status/phase");
  const std::string text = "claim " + name_of(claim) + " is " + phase;
  if (phase == "Bound") return {Level::kOk, "storage", text, ""};
  if (phase == "Lost") {
    return {Level::kFail, "storage", text, "its volume was deleted: create the claim again"};
  }
  return {Level::kWarn, "storage", text, "kubectl describe pvc " + name_of(claim)};
}

Finding check_default_class(const ClusterFacts& facts) {
  if (!facts.storage_classes) {
    return unread("storage", facts.storage_classes.error(), "list StorageClasses");
  }
  for (const json& one : *facts.storage_classes) {
    if (text_in(one, "/metadata/annotations/storageclass.kubernetes.io~1is-default-class") ==
        "true") {
      return {Level::kOk, "storage", "default StorageClass " + name_of(one), ""};
    }
  }
  return {Level::kWarn, "storage", "there is no default StorageClass",
          "name one in each claim, that of the installed registry too"};
}

// ---- NetworkPolicies

bool is_for_egress(const json& policy) {
  const json& types = at(policy, "/spec/policyTypes");
  if (!types.is_array()) return at(policy, "/spec/egress").is_array();
  return std::find(types.begin(), types.end(), "Egress") != types.end();
}

// Addresses cannot be judged from here; a rule with some may let pods through.
bool reaches_operator(const json& peer, const json& operator_ns_labels) {
  if (peer.contains("ipBlock")) return true;
  if (!peer.contains("namespaceSelector")) return false;  // pods of its own namespace
  const json labels = {{"app.kubernetes.io/name", "compilecache-operator"}};
  return matches_selector(at(peer, "/namespaceSelector"), operator_ns_labels) &&
         (!peer.contains("podSelector") || matches_selector(at(peer, "/podSelector"), labels));
}

bool has_port(const json& port) {
  const std::string protocol = text_in(port, "/protocol");
  if (!protocol.empty() && protocol != "TCP") return false;
  const json& first = at(port, "/port");
  if (first.is_null() || first == "agents") return true;
  if (!first.is_number_integer()) return false;
  const json& last = at(port, "/endPort");
  const int from = first.get<int>(), to = last.is_number_integer() ? last.get<int>() : from;
  return from <= kAgentPort && kAgentPort <= to;
}

template <typename Judge>
bool any_or_none(const json& list, const Judge& judge) {
  return !list.is_array() || list.empty() || std::any_of(list.begin(), list.end(), judge);
}

bool lets_through(const json& policy, const json& operator_ns_labels) {
  const json& rules = at(policy, "/spec/egress");
  return std::any_of(rules.begin(), rules.end(), [&](const json& rule) {
    return any_or_none(at(rule, "/ports"), has_port) &&
           any_or_none(at(rule, "/to"), [&](const json& peer) {
             return reaches_operator(peer, operator_ns_labels);
           });
  });
}

// Whether all pods that the one selects are selected by the other, as far as that is plain.
bool covers(const json& other, const json& policy) {
  const json& selector = at(other, "/spec/podSelector");
  return selector.empty() || selector == at(policy, "/spec/podSelector");
}

// Policies that deny egress to the operator, though no other lets their pods through.
std::vector<std::string> denying(const json& policies, const json& operator_ns_labels) {
  std::vector<std::string> names;
  for (const json& policy : policies) {
    if (!is_for_egress(policy)) continue;
    const bool through = std::any_of(policies.begin(), policies.end(), [&](const json& other) {
      return is_for_egress(other) && covers(other, policy) &&
             lets_through(other, operator_ns_labels);
    });
    if (!through) names.push_back(name_of(policy));
  }
  return names;
}

}  // namespace

Finding unread(const std::string& check, const Error& error, const std::string& what) {
  if (error.code == ErrorCode::kForbidden) {
    return {Level::kUnchecked, check, "not allowed to " + what + ": not checked", ""};
  }
  return {Level::kUnchecked, check, "could not " + what + ": not checked: " + error.message, ""};
}

Findings check_nodes(const ClusterFacts& facts) {
  if (!facts.nodes) return {unread("nodes", facts.nodes.error(), "list nodes")};
  std::vector<std::string> unlabelled, old;
  size_t gpus = 0;
  for (const json& node : *facts.nodes) {
    if (is_old(text_in(node, "/status/nodeInfo/kubeletVersion"))) old.push_back(name_of(node));
    if (!has_gpu(node, facts.settings.gpu_resources)) continue;
    ++gpus;
    if (!has_any_label(node, facts.settings.node_labels.gpu_product)) {
      unlabelled.push_back(name_of(node));
    }
  }
  Findings findings;
  if (!old.empty()) {
    findings.push_back({Level::kFail, "nodes", "kubelet older than 1.30 on " + some_of(old),
                        "upgrade these nodes"});
  }
  if (!unlabelled.empty()) {
    findings.push_back(
        {Level::kWarn, "nodes",
         "no label with the GPU's product on " + some_of(unlabelled) + ", so pods there start cold",
         "install GPU Feature Discovery, or set gpuProductLabels in the settings"});
  } else {
    findings.push_back({Level::kOk, "nodes",
                        std::to_string(facts.nodes->size()) + " nodes, " + std::to_string(gpus) +
                            " with GPUs, all of them with a label for their product",
                        ""});
  }
  return findings;
}

Findings check_storage(const ClusterFacts& facts) {
  Findings findings{check_default_class(facts)};
  if (!facts.caches) return findings;
  if (!facts.claims) {
    findings.push_back(
        unread("storage", facts.claims.error(), "list PersistentVolumeClaims in " + facts.ns));
    return findings;
  }
  for (const json& claim : *facts.claims) {
    const bool used =
        std::any_of(facts.caches->begin(), facts.caches->end(), [&](const json& cache) {
          return text_in(cache, "/spec/storage/claimName") == name_of(claim);
        });
    if (used) findings.push_back(check_claim(claim));
  }
  return findings;
}

Findings check_network(const ClusterFacts& facts) {
  if (!facts.network_policies) {
    return {
        unread("network", facts.network_policies.error(), "list NetworkPolicies in " + facts.ns)};
  }
  json labels = {{"kubernetes.io/metadata.name", facts.operator_ns}};
  if (facts.operator_ns_object && at(*facts.operator_ns_object, "/metadata/labels").is_object()) {
    labels.update(at(*facts.operator_ns_object, "/metadata/labels"));
  }
  const auto names = denying(*facts.network_policies, labels);
  if (names.empty()) {
    return {
        {Level::kOk, "network", "no NetworkPolicy of " + facts.ns + " denies the operator", ""}};
  }
  return {{Level::kWarn, "network",
           "NetworkPolicy " + some_of(names) + " denies its pods egress to the operator (TCP " +
               std::to_string(kAgentPort) + "), so they save nothing",
           "add the rule of docs/run/network-policy.md"}};
}

}  // namespace compilecache::cli
