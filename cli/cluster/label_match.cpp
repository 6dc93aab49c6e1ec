#include "cli/cluster/label_match.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/strings.hpp"
#include "cli/text/json_at.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

std::optional<int64_t> number(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool compares(const std::string& label, const json& values, bool greater) {
  if (values.size() != 1 || !values.front().is_string()) return false;
  const auto is = number(label), limit = number(values.front().get<std::string>());
  return is && limit && (greater ? *is > *limit : *is < *limit);
}

bool holds(const json& requirement, const json& labels) {
  const std::string key = kube::string_at(requirement, {"key"});
  const std::string op = kube::string_at(requirement, {"operator"});
  const bool has = labels.is_object() && labels.contains(key) && labels.at(key).is_string();
  if (op == "Exists") return has;
  if (op == "DoesNotExist") return !has;
  const json& values = at(requirement, "/values");
  if (!values.is_array()) return false;
  const std::string label = has ? labels.at(key).get<std::string>() : "";
  const bool among = has && std::find(values.begin(), values.end(), label) != values.end();
  if (op == "In") return among;
  if (op == "NotIn") return !among;
  if (op == "Gt" || op == "Lt") return has && compares(label, values, op == "Gt");
  return false;
}

bool equal_labels(const json& wanted, const json& labels) {
  if (!wanted.is_object()) return true;
  for (const auto& [name, value] : wanted.items()) {
    if (!labels.is_object() || !labels.contains(name) || labels.at(name) != value) return false;
  }
  return true;
}

// Fields are metadata.name alone.
bool term_holds(const json& term, const json& node) {
  const json& expressions = at(term, "/matchExpressions");
  const json& fields = at(term, "/matchFields");
  if (expressions.empty() && fields.empty()) return false;  // an empty term selects no node
  const json name{{"metadata.name", kube::string_at(node, {"metadata", "name"})}};
  return matches_all(expressions, at(node, "/metadata/labels")) && matches_all(fields, name);
}

bool tolerates(const json& toleration, const json& taint) {
  const std::string effect = kube::string_at(toleration, {"effect"});
  if (!effect.empty() && effect != kube::string_at(taint, {"effect"})) return false;
  const std::string key = kube::string_at(toleration, {"key"});
  const bool exists = kube::string_at(toleration, {"operator"}) == "Exists";
  if (key.empty()) return exists;
  if (key != kube::string_at(taint, {"key"})) return false;
  return exists || kube::string_at(toleration, {"value"}) == kube::string_at(taint, {"value"});
}

// "tier in (a,b)"; empty where it cannot be written.
std::string query_of(const json& requirement) {
  const std::string key = kube::string_at(requirement, {"key"});
  const std::string op = kube::string_at(requirement, {"operator"});
  if (key.empty()) return "";
  if (op == "Exists") return key;
  if (op == "DoesNotExist") return "!" + key;
  const json& values = at(requirement, "/values");
  if ((op != "In" && op != "NotIn") || !values.is_array()) return "";
  std::vector<std::string> words;
  for (const json& value : values) {
    if (!value.is_string()) return "";
    words.push_back(value);
  }
  return key + (op == "In" ? " in (" : " notin (") + join(words, ",") + ")";
}

}  // namespace

bool matches_all(const json& requirements, const json& labels) {
  if (!requirements.is_array()) return true;
  return std::all_of(requirements.begin(), requirements.end(),
                     [&](const json& requirement) { return holds(requirement, labels); });
}

bool matches_selector(const json& selector, const json& labels) {
  if (!selector.is_object()) return false;
  return equal_labels(at(selector, "/matchLabels"), labels) &&
         matches_all(at(selector, "/matchExpressions"), labels);
}

std::string selector_query(const json& selector) {
  std::vector<std::string> parts;
  const json& equal = at(selector, "/matchLabels");
  if (equal.is_object()) {
    for (const auto& [name, value] : equal.items()) {
      if (!value.is_string()) return "";
      parts.push_back(name + "=" + value.get<std::string>());
    }
  }
  const json& expressions = at(selector, "/matchExpressions");
  for (const json& requirement : expressions.is_array() ? expressions : json::array()) {
    parts.push_back(query_of(requirement));
    if (parts.back().empty()) return "";
  }
  return join(parts, ",");
}

std::set<std::string> labels_of(const json& selector) {
  std::set<std::string> names;
  const json& equal = at(selector, "/matchLabels");
  if (equal.is_object()) {
    for (const auto& [name, value] : equal.items()) names.insert(name);
  }
  const json& expressions = at(selector, "/matchExpressions");
  if (expressions.is_array()) {
    for (const json& one : expressions) names.insert(kube::string_at(one, {"key"}));
  }
  return names;
}

bool may_run_on(const json& pod_spec, const json& node) {
  if (!equal_labels(at(pod_spec, "/nodeSelector"), at(node, "/metadata/labels"))) return false;
  const json& terms =
      at(pod_spec,
         "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms");
  if (terms.is_array() && std::none_of(terms.begin(), terms.end(),
                                       [&](const json& term) { return term_holds(term, node); })) {
    return false;
  }
  const json& taints = at(node, "/spec/taints");
  if (!taints.is_array()) return true;
  const json& tolerations = at(pod_spec, "/tolerations");
  return std::all_of(taints.begin(), taints.end(), [&](const json& taint) {
    return kube::string_at(taint, {"effect"}) == "PreferNoSchedule" ||
           (tolerations.is_array() &&
            std::any_of(tolerations.begin(), tolerations.end(),
                        [&](const json& one) { return tolerates(one, taint); }));
  });
}

}  // namespace compilecache::cli
