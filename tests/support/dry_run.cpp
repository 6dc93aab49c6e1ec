#include "tests/support/dry_run.hpp"

#include <stdexcept>

#include "base/random.hpp"

namespace compilecache::testing {

using nlohmann::json;

namespace {

constexpr const char* kLevels[] = {"restricted", "baseline", "privileged"};

// The parts that the injection adds to, and nothing else.
json rest_of(const json& pod) {
  json spec = pod.at("spec");
  for (const char* list : {"containers", "initContainers", "volumes"}) spec.erase(list);
  return spec;
}

}  // namespace

std::string Verdict::qos_class() const {
  const json::json_pointer at("/status/qosClass");
  return pod.contains(at) ? pod.at(at).get<std::string>() : std::string();
}

DryRun::DryRun(kube::Client client) : client_(std::move(client)) {
  for (const char* level : kLevels) {
    levels_[level] = make_namespace(level, {{"pod-security.kubernetes.io/enforce", level}});
  }
}

DryRun::~DryRun() {
  for (const std::string& name : namespaces_) {
    client_.remove(kube::resources::kNamespaces, "", name);
  }
}

std::string DryRun::make_namespace(const std::string& purpose, const json& labels) {
  const std::string name = purpose + "-" + random_id(system_random()).substr(0, 8);
  const auto made = client_.create(kube::resources::kNamespaces,
                                   {{"apiVersion", "v1"},
                                    {"kind", "Namespace"},
                                    {"metadata", {{"name", name}, {"labels", labels}}}});
  if (!made) throw std::runtime_error("making namespace " + name + ": " + made.error().message);
  namespaces_.push_back(name);
  return name;
}

Verdict DryRun::in_namespace(json pod, const std::string& ns) const {
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  json& metadata = pod["metadata"];
  metadata["namespace"] = ns;
  // As the admission of a whole cluster does, before any webhook; here there are no accounts.
  json& account = pod["spec"]["serviceAccountName"];
  if (account.is_null() || account == "") account = "default";
  if (!metadata.contains("name")) metadata["generateName"] = "dry-run-";
  auto made = client_.create(kube::resources::kPods, pod, {.dry_run = true});
  // An API server that is busy has said nothing about the pod.
  const auto is_busy = [&] {
    return !made && (made.error().code == ErrorCode::kTimeout ||
                     made.error().code == ErrorCode::kUnavailable);
  };
  for (int tries = 0; tries < 10 && is_busy(); ++tries) {
    made = client_.create(kube::resources::kPods, pod, {.dry_run = true});
  }
  if (!made) return {.ns = ns, .message = made.error().message};
  return {.ns = ns, .pod = std::move(*made)};
}

Verdict DryRun::again(const json& pod, const Verdict& before) const {
  Verdict verdict = in_namespace(pod, before.ns);
  verdict.level = before.level;
  return verdict;
}

Verdict DryRun::strictest(const json& pod) const {
  Verdict verdict;
  for (const char* level : kLevels) {
    verdict = in_namespace(pod, levels_.at(level));
    if (!verdict.accepted()) continue;
    verdict.level = level;
    break;
  }
  return verdict;
}

std::string worsened(const Verdict& before, const Verdict& after) {
  if (!before.accepted()) return {};
  if (!after.accepted()) return "refused: " + after.message;
  if (after.qos_class() != before.qos_class()) {
    return before.qos_class() + " became " + after.qos_class();
  }
  if (rest_of(after.pod) != rest_of(before.pod)) {
    return "changed: " + json::diff(rest_of(before.pod), rest_of(after.pod)).dump();
  }
  return {};
}

}  // namespace compilecache::testing
