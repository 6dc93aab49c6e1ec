#include "cli/prewarm/gpu_kinds.hpp"

#include <algorithm>
#include <map>

#include "base/quantity.hpp"
#include "base/strings.hpp"
#include "cli/cluster/label_match.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

json in(const std::string& label, const std::string& value) {
  return {{"key", label}, {"operator", "In"}, {"values", {value}}};
}

// As the requests count, devices are whole numbers.
bool has_devices(const json& node, const api::KeyBasis& basis) {
  if (basis.gpu_resource.empty()) return true;
  const std::string text =
      kube::string_at(node, {"status", "allocatable", basis.gpu_resource.c_str()});
  const auto count = parse_quantity_milli(text);
  return count && *count >= int64_t{1000} * basis.gpu_count;
}

std::string label_of(const json& node, const std::string& name) {
  return kube::string_at(node, {"metadata", "labels", name.c_str()});
}

// The labels of which the first that the node has counts; one may be several joined by '+'.
void require_first(const json& node, const std::vector<std::string>& names, json& term) {
  for (const std::string& name : names) {
    bool found = false;
    for (const std::string& part : split(name, '+')) {
      const std::string value = label_of(node, part);
      if (value.empty()) continue;
      term.push_back(in(part, value));
      found = true;
    }
    if (found) return;
  }
}

bool has_part(const api::KeyBasis& basis, const char* part) {
  return std::find(basis.parts.begin(), basis.parts.end(), part) != basis.parts.end();
}

json term_of(const json& node, const api::KeyBasis& basis, const api::NodeLabels& names) {
  json term = json::array();
  require_first(node, {"kubernetes.io/arch", "beta.kubernetes.io/arch"}, term);
  const bool on_gpu = !basis.gpu_resource.empty();
  if (on_gpu) require_first(node, names.gpu_product, term);
  if (has_part(basis, api::kDriverVersionPart)) require_first(node, names.driver_version, term);
  if (!on_gpu || has_part(basis, api::kCpuFeaturesPart)) {
    for (const std::string& name : names.cpu_features) {
      const std::string value = label_of(node, name);
      term.push_back(value.empty() ? json{{"key", name}, {"operator", "DoesNotExist"}}
                                   : in(name, value));
    }
  }
  return term;
}

std::string product_of(const api::KeyBasis& basis, const api::NodeFacts& facts) {
  return basis.gpu_resource.empty()
             ? "cpu-" + facts.architecture
             : api::normalized_gpu_product(facts.gpu_product, basis.gpu_resource);
}

}  // namespace

std::vector<GpuKind> gpu_kinds(const api::KeyBasis& basis, const json& pod_spec,
                               const std::vector<json>& nodes, const api::NodeLabels& labels) {
  struct Found {
    GpuKind kind;
    std::set<std::string> products;
  };
  std::map<api::ArchiveKey, Found> by_key;
  for (const json& node : nodes) {
    const auto read = controller::parse_node(node, labels);
    if (!read || !may_run_on(pod_spec, node) || !has_devices(node, basis)) continue;
    const auto key = api::make_key(basis, read->facts);
    if (!key) continue;
    Found& found = by_key[*key];
    found.kind.key = *key;
    found.kind.nodes.insert(read->name);
    found.kind.terms.insert(term_of(node, basis, labels));
    found.products.insert(product_of(basis, read->facts));
  }
  std::vector<GpuKind> kinds;
  for (auto& [key, found] : by_key) {
    found.kind.product = join({found.products.begin(), found.products.end()}, ", ");
    kinds.push_back(std::move(found.kind));
  }
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const GpuKind& a, const GpuKind& b) { return a.product < b.product; });
  return kinds;
}

void restrict_to(const GpuKind& kind, json& pod_spec) {
  json& required =
      pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  json before =
      required.is_object() ? required.value("nodeSelectorTerms", json::array()) : json::array();
  if (!before.is_array() || before.empty()) before = json::array({json::object()});
  json terms = json::array();
  for (const json& own : before) {
    for (const json& term : kind.terms) {
      json both = own;
      for (const json& requirement : term) both["matchExpressions"].push_back(requirement);
      terms.push_back(std::move(both));
    }
  }
  required = {{"nodeSelectorTerms", std::move(terms)}};
}

}  // namespace compilecache::cli
