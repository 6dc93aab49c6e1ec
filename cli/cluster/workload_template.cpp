#include "cli/cluster/workload_template.hpp"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string_view>

#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

struct Kind {
  const char* kind;
  const char* group;
  const char* version;
  const char* plural;
  std::initializer_list<const char*> short_names;
  const char* path;  // of the pod template
};

constexpr char kTemplate[] = "/spec/template";
const Kind kKinds[] = {
    {"Deployment", "apps", "v1", "deployments", {"deployment", "deploy"}, kTemplate},
    {"StatefulSet", "apps", "v1", "statefulsets", {"statefulset", "sts"}, kTemplate},
    {"DaemonSet", "apps", "v1", "daemonsets", {"daemonset", "ds"}, kTemplate},
    {"ReplicaSet", "apps", "v1", "replicasets", {"replicaset", "rs"}, kTemplate},
    {"Job", "batch", "v1", "jobs", {"job"}, kTemplate},
    {"CronJob", "batch", "v1", "cronjobs", {"cronjob", "cj"}, "/spec/jobTemplate/spec/template"},
    {"Rollout", "argoproj.io", "v1alpha1", "rollouts", {"rollout", "ro"}, kTemplate},
};

std::string in_lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// "deploy", "deployments", "deployment.apps"
bool names(const Kind& kind, const std::string& written) {
  const std::string word = in_lower_case(written.substr(0, written.find('.')));
  return word == kind.plural || std::any_of(kind.short_names.begin(), kind.short_names.end(),
                                            [&](const char* name) { return word == name; });
}

std::string all_kinds() {
  std::string text;
  for (const Kind& kind : kKinds) text += (text.empty() ? "" : ", ") + in_lower_case(kind.kind);
  return text;
}

}  // namespace

Result<WorkloadName> workload_named(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string kind = text.substr(0, slash);
  const std::string name = slash == std::string::npos ? "" : text.substr(slash + 1);
  const auto* const found = std::find_if(std::begin(kKinds), std::end(kKinds),
                                         [&](const Kind& one) { return names(one, kind); });
  if (found == std::end(kKinds) || name.empty() || name.find('/') != std::string::npos) {
    return fail(ErrorCode::kInvalid, "\"" + text +
                                         "\" names no workload; write it like deployment/web, with "
                                         "one of " +
                                         all_kinds());
  }
  return WorkloadName{
      {found->group, found->version, found->plural, true, found->kind}, found->kind, name};
}

Result<std::optional<WorkloadTemplate>> workload_template(const json& object,
                                                          const std::string& ns) {
  const std::string kind = kube::string_at(object, {"kind"});
  const std::string api_version = kube::string_at(object, {"apiVersion"});
  const std::string group = api_version.substr(0, api_version.find('/'));
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds),
                   [&](const Kind& one) { return kind == one.kind && group == one.group; });
  if (found == std::end(kKinds)) return std::nullopt;
  WorkloadTemplate made{.ns = kube::string_at(object, {"metadata", "namespace"}),
                        .kind = kind,
                        .name = kube::string_at(object, {"metadata", "name"})};
  if (made.ns.empty()) made.ns = ns;
  const json::json_pointer path(found->path);
  const json::json_pointer containers("/spec/containers");
  if (made.name.empty() || !object.contains(path) || !object.at(path).contains(containers)) {
    return fail(ErrorCode::kInvalid,
                kind + " " + made.ns + "/" + made.name + " has no pod template at " + found->path);
  }
  made.pod_template = object.at(path);
  made.template_path = found->path;
  const json& spec = object.at("spec");
  made.claim_templates = spec.value("volumeClaimTemplates", json::array());
  if (!made.claim_templates.is_array()) made.claim_templates = json::array();
  made.selector = spec.value("selector", json());
  return made;
}

}  // namespace compilecache::cli
