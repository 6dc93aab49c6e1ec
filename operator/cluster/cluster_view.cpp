#include "operator/cluster/cluster_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "base/shared_values.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

// The API server's objects are well-formed; what is missing or odd reads as empty, never as an
// error, so that one strange object cannot blind us.
const json& at(const json& object, const char* key) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

std::string text(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

int number(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_number_integer() ? value.get<int>() : 0;
}

bool flag(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_boolean() && value.get<bool>();
}

ContainerView container_view(const json& status, bool init) {
  ContainerView container;
  container.name = text(status, "name");
  container.image_id = text(status, "imageID");
  container.init = init;
  container.restarts = number(status, "restartCount");
  const json& state = at(status, "state");
  container.running = at(state, "running").is_object();
  const json& waiting = at(state, "waiting");
  container.waiting_reason = text(waiting, "reason");
  container.waiting_message = text(waiting, "message");
  const json& ended = at(state, "terminated").is_object()
                          ? at(state, "terminated")
                          : at(at(status, "lastState"), "terminated");
  container.ended_reason = text(ended, "reason");
  container.exit_code = number(ended, "exitCode");
  return container;
}

void add_containers(std::vector<ContainerView>& containers, const json& statuses, bool init) {
  if (!statuses.is_array()) return;
  for (const json& status : statuses) containers.push_back(container_view(status, init));
}

std::shared_ptr<const std::vector<ContainerView>> containers_of(const json& status) {
  static SharedValues<std::vector<ContainerView>> known;
  std::vector<ContainerView> containers;
  add_containers(containers, at(status, "initContainerStatuses"), true);
  add_containers(containers, at(status, "containerStatuses"), false);
  if (containers.empty()) return nullptr;
  containers.shrink_to_fit();
  return known.get(std::move(containers));
}

std::shared_ptr<const OwnerView> owner_of(const json& metadata) {
  static SharedValues<OwnerView> known;
  const json& owners = at(metadata, "ownerReferences");
  if (!owners.is_array()) return nullptr;
  for (const json& owner : owners) {
    if (!flag(owner, "controller")) continue;
    return known.get(
        {text(owner, "apiVersion"), text(owner, "kind"), text(owner, "name"), text(owner, "uid")});
  }
  return nullptr;
}

// An annotation and what it says, so that it is read once for all pods that carry it.
struct Annotation {
  std::string text;
  std::optional<api::InjectionStatus> status;
};

struct ByText {
  using is_transparent = void;
  static const std::string& text_of(const Annotation& annotation) { return annotation.text; }
  static const std::string& text_of(const std::string& text) { return text; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return text_of(a) < text_of(b);
  }
};

std::shared_ptr<const api::InjectionStatus> injection_of(const json& annotations) {
  static SharedValues<Annotation, ByText> known;
  const json& annotation = at(annotations, api::kStatusAnnotation);
  if (!annotation.is_string()) return nullptr;
  const auto& injected = annotation.get_ref<const std::string&>();
  const auto read = known.find_or_make(injected, [&] {
    Annotation made{injected, std::nullopt};
    if (auto parsed = api::parse_injection_status(injected)) made.status = std::move(*parsed);
    return made;
  });
  if (!read->status) return nullptr;
  return {read, &*read->status};
}

std::string unschedulable_message(const json& status) {
  const json& conditions = at(status, "conditions");
  if (!conditions.is_array()) return "";
  for (const json& condition : conditions) {
    if (text(condition, "type") == "PodScheduled" && text(condition, "status") == "False" &&
        text(condition, "reason") == "Unschedulable") {
      return text(condition, "message");
    }
  }
  return "";
}

// Nobody's fault but the cluster's: DisruptionTarget says that a pod is being evicted, the status'
// reason that it was ended ("Evicted", "DeadlineExceeded").
bool is_disrupted(const json& status) {
  if (!text(status, "reason").empty()) return true;
  const json& conditions = at(status, "conditions");
  if (!conditions.is_array()) return false;
  return std::any_of(conditions.begin(), conditions.end(), [](const json& condition) {
    return text(condition, "type") == "DisruptionTarget" && text(condition, "status") == "True";
  });
}

// Labels that make one value together ("a.b/major+a.b/minor"): those that the node has, joined by
// dots.
std::string first_label(const json& labels, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::vector<std::string> values;
    for (const std::string& part : split(name, '+')) {
      std::string value = text(labels, part.c_str());
      if (!value.empty()) values.push_back(std::move(value));
    }
    if (!values.empty()) return join(values, ".");
  }
  return "";
}

// "AVX2+AVX512F": the last part of each label that says "true"; other values are added as they are.
std::string cpu_features(const json& labels, const std::vector<std::string>& names) {
  std::vector<std::string> features;
  for (const std::string& name : names) {
    const std::string value = text(labels, name.c_str());
    if (value.empty() || value == "false") continue;
    const size_t cut = name.find_last_of("./");
    const std::string last = cut == std::string::npos ? name : name.substr(cut + 1);
    features.push_back(value == "true" ? last : last + "=" + value);
  }
  return join(features, "+");
}

std::string architecture_of(const json& labels) {
  std::string architecture = text(labels, "kubernetes.io/arch");
  return architecture.empty() ? text(labels, "beta.kubernetes.io/arch") : architecture;
}

bool has_ended(const ContainerView& container) {
  return container.exit_code != 0 || !container.ended_reason.empty();
}

bool crashed(const ContainerView& container) {
  constexpr int kTerminated = 128 + 15, kKilled = 128 + 9;
  // Reasons of the kubelet for an end that the application has no part in.
  constexpr std::string_view kOfOthers[] = {"OOMKilled", "StartError", "ContainerCannotRun",
                                            "ContainerStatusUnknown"};
  const int code = container.exit_code;
  const bool by_others = std::find(std::begin(kOfOthers), std::end(kOfOthers),
                                   container.ended_reason) != std::end(kOfOthers);
  return code != 0 && code != kTerminated && code != kKilled && !by_others;
}

}  // namespace

std::string PodView::image_id() const {
  if (injection == nullptr || containers == nullptr) return "";
  for (const std::string& chosen : injection->containers) {
    for (const ContainerView& container : *containers) {
      if (container.name == chosen) return container.image_id;
    }
  }
  return "";
}

std::vector<ContainerEnd> PodView::ends() const {
  std::vector<ContainerEnd> ends;
  if (injection == nullptr || containers == nullptr) return ends;
  for (const std::string& chosen : injection->containers) {
    for (const ContainerView& container : *containers) {
      if (container.name != chosen) continue;
      // The kubelet counts a restart when the container runs again.
      const bool waits = !container.running && has_ended(container);
      const int count = container.restarts + (waits ? 1 : 0);
      if (count == 0) continue;
      ends.push_back({chosen, count, !deleting && !disrupted && crashed(container)});
    }
  }
  return ends;
}

Result<PodView> parse_pod(const json& object) {
  PodView pod;
  const json& metadata = at(object, "metadata");
  const json& spec = at(object, "spec");
  const json& status = at(object, "status");
  pod.ns = text(metadata, "namespace");
  pod.name = text(metadata, "name");
  pod.uid = text(metadata, "uid");
  pod.node = text(spec, "nodeName");
  pod.phase = text(status, "phase");
  pod.deleting = at(metadata, "deletionTimestamp").is_string();
  pod.disrupted = is_disrupted(status);
  pod.created = text(metadata, "creationTimestamp");
  pod.service_account = text(spec, "serviceAccountName");
  pod.cache = text(at(metadata, "labels"), api::kCacheLabel);
  pod.sweep = text(at(metadata, "labels"), api::kSweepLabel);
  pod.group = pod_group(at(metadata, "labels"));
  pod.injection = injection_of(at(metadata, "annotations"));
  pod.owner = owner_of(metadata);
  pod.unschedulable = unschedulable_message(status);
  pod.containers = containers_of(status);
  return pod;
}

const kube::Fields& pod_fields() {
  static const kube::Fields kFields{"/metadata/uid",
                                    "/metadata/creationTimestamp",
                                    "/metadata/deletionTimestamp",
                                    "/metadata/labels/compilecache.dev~1cache",
                                    "/metadata/labels/compilecache.dev~1sweep",
                                    "/metadata/labels/leaderworkerset.sigs.k8s.io~1group-key",
                                    "/metadata/labels/leaderworkerset.sigs.k8s.io~1worker-index",
                                    "/metadata/labels/jobset.sigs.k8s.io~1jobset-uid",
                                    "/metadata/labels/jobset.sigs.k8s.io~1job-global-index",
                                    "/metadata/labels/batch.kubernetes.io~1job-completion-index",
                                    "/metadata/labels/apps.kubernetes.io~1pod-index",
                                    "/metadata/labels/ray.io~1cluster",
                                    "/metadata/labels/volcano.sh~1job-name",
                                    "/metadata/labels/scheduling.x-k8s.io~1pod-group",
                                    "/metadata/labels/kueue.x-k8s.io~1pod-group-name",
                                    "/metadata/annotations/compilecache.dev~1status",
                                    "/metadata/ownerReferences",
                                    "/spec/nodeName",
                                    "/spec/serviceAccountName",
                                    "/status/phase",
                                    "/status/reason",
                                    "/status/conditions/type",
                                    "/status/conditions/status",
                                    "/status/conditions/reason",
                                    "/status/conditions/message",
                                    "/status/initContainerStatuses/name",
                                    "/status/initContainerStatuses/imageID",
                                    "/status/initContainerStatuses/restartCount",
                                    "/status/initContainerStatuses/state",
                                    "/status/initContainerStatuses/lastState/terminated",
                                    "/status/containerStatuses/name",
                                    "/status/containerStatuses/imageID",
                                    "/status/containerStatuses/restartCount",
                                    "/status/containerStatuses/state",
                                    "/status/containerStatuses/lastState/terminated"};
  return kFields;
}

const kube::Fields& node_fields() {
  static const kube::Fields kFields{"/metadata/labels"};
  return kFields;
}

Result<NodeView> parse_node(const json& object, const api::NodeLabels& names) {
  const json& metadata = at(object, "metadata");
  const json& labels = at(metadata, "labels");
  NodeView node;
  node.name = text(metadata, "name");
  node.facts.gpu_product = first_label(labels, names.gpu_product);
  node.facts.architecture = architecture_of(labels);
  node.facts.driver_version = first_label(labels, names.driver_version);
  node.facts.cpu_features = cpu_features(labels, names.cpu_features);
  return node;
}

std::shared_ptr<const PodView> ClusterView::pod(std::string_view ns, std::string_view name) const {
  const std::string key = kube::object_key(ns, name);
  if (auto pod = stores_.pods.get(key)) return pod;
  return stores_.sweep_pods.get(key);
}

std::vector<std::shared_ptr<const PodView>> ClusterView::pods_of(std::string_view ns,
                                                                 std::string_view cache) const {
  return stores_.pods_by_cache.list(kube::object_key(ns, cache));
}

std::vector<std::shared_ptr<const PodView>> ClusterView::active_pods(std::string_view ns,
                                                                     std::string_view cache) const {
  auto pods = pods_of(ns, cache);
  std::erase_if(pods, [](const auto& pod) { return pod->ended(); });
  return pods;
}

std::vector<std::shared_ptr<const PodView>> ClusterView::sweep_pods_of(
    std::string_view ns, std::string_view cache) const {
  return stores_.sweep_pods_by_cache.list(kube::object_key(ns, cache));
}

std::optional<api::NodeFacts> ClusterView::node(std::string_view name) const {
  const auto node = stores_.nodes.get(name);
  if (node == nullptr) return std::nullopt;
  return node->facts;
}

std::shared_ptr<const api::CompileCache> ClusterView::cache(std::string_view ns,
                                                            std::string_view name) const {
  return stores_.caches.get(kube::object_key(ns, name));
}

std::shared_ptr<const api::CompileCacheArchive> ClusterView::archive(std::string_view ns,
                                                                     std::string_view name) const {
  return stores_.archives.get(kube::object_key(ns, name));
}

std::vector<std::shared_ptr<const api::CompileCacheArchive>> ClusterView::archives_of(
    std::string_view ns, std::string_view cache) const {
  return stores_.archives_by_cache.list(kube::object_key(ns, cache));
}

}  // namespace compilecache::controller
