#include "operator/cluster/cluster_view.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/injection_bounds.hpp"
#include "api/names.hpp"
#include "base/sha256.hpp"
#include "base/shared_values.hpp"
#include "base/strings.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

// The kept length of texts. Names have 253 characters in Kubernetes, words a few dozen; people are
// shown the first 240 bytes of a container's message.
constexpr size_t kLongestName = 253, kLongestWord = 64, kLongestMessage = 256;
// The scheduler writes a sentence for each of its reasons, and we search them.
constexpr size_t kLongestUnschedulable = 2048;
// For containers that are not injected and do not use the cache.
constexpr size_t kMostOtherContainers = 16;
// Of any list of a pod. The webhook looks at no pod with more containers of one kind.
constexpr size_t kMostElements = 500;

// The API server's objects are well-formed; what is missing or odd reads as empty, never as an
// error, so that one strange object cannot blind us.
const json& at(const json& object, const char* key) {
  static const json kNothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNothing;
}

std::string text(const json& object, const char* key, size_t most = kLongestName) {
  const json& value = at(object, key);
  if (!value.is_string()) return {};
  return std::string(first_bytes(value.get_ref<const std::string&>(), most));
}

int number(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_number_integer() ? value.get<int>() : 0;
}

bool flag(const json& object, const char* key) {
  const json& value = at(object, key);
  return value.is_boolean() && value.get<bool>();
}

bool is_ours(const std::string& name) {
  return name == api::kLoaderContainer || name == api::kSaverContainer;
}

// Whether a container counts by itself: injected ones, and those that use the cache.
bool matters(const std::string& name, const api::InjectionStatus& injection) {
  const auto& chosen = injection.containers;
  return is_ours(name) || std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

ContainerView container_view(const json& status, bool init, const api::InjectionStatus* injection) {
  ContainerView container;
  container.name = text(status, "name");
  container.init = init;
  container.restarts = number(status, "restartCount");
  const json& state = at(status, "state");
  container.running = at(state, "running").is_object();
  const json& waiting = at(state, "waiting");
  container.waiting_reason = text(waiting, "reason", kLongestWord);
  const json& ended = at(state, "terminated").is_object()
                          ? at(state, "terminated")
                          : at(at(status, "lastState"), "terminated");
  container.ended_reason = text(ended, "reason", kLongestWord);
  container.exit_code = number(ended, "exitCode");
  // In a sweep Job's pod all are the operator's, and in an application's the first image counts.
  if (injection == nullptr || is_ours(container.name)) {
    container.waiting_message = text(waiting, "message", kLongestMessage);
  } else if (!injection->containers.empty() && container.name == injection->containers.front()) {
    container.image_id = text(status, "imageID", kLongestMessage);
  }
  return container;
}

// The lower, the more can be concluded from it where not all are kept.
int rank_of(const ContainerView& container) {
  if (container.running) return 0;
  if (container.restarts > 0 || !container.ended_reason.empty()) return 1;
  return container.waiting_reason.empty() ? 3 : 2;
}

// Drops the surplus of the containers that do not matter.
void drop_others(std::vector<ContainerView>& containers, const api::InjectionStatus* injection) {
  const auto is_other = [&](const ContainerView& container) {
    return injection == nullptr || !matters(container.name, *injection);
  };
  const auto others = std::count_if(containers.begin(), containers.end(), is_other);
  if (static_cast<size_t>(others) <= kMostOtherContainers) return;
  std::stable_sort(containers.begin(), containers.end(), [&](const auto& a, const auto& b) {
    return std::pair(is_other(a), rank_of(a)) < std::pair(is_other(b), rank_of(b));
  });
  containers.resize(containers.size() - static_cast<size_t>(others) + kMostOtherContainers);
}

void add_containers(std::vector<ContainerView>& containers, const json& statuses, bool init,
                    const api::InjectionStatus* injection) {
  if (!statuses.is_array()) return;
  for (const json& status : statuses) {
    if (containers.size() == 2 * kMostElements) return;
    containers.push_back(container_view(status, init, injection));
  }
}

std::shared_ptr<const std::vector<ContainerView>> containers_of(
    const json& status, const api::InjectionStatus* injection) {
  static SharedValues<std::vector<ContainerView>> known;
  std::vector<ContainerView> containers;
  add_containers(containers, at(status, "initContainerStatuses"), true, injection);
  add_containers(containers, at(status, "containerStatuses"), false, injection);
  if (containers.empty()) return nullptr;
  drop_others(containers, injection);
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

// A parsed annotation, by a digest of its text, so that it is read once for all pods that carry
// it.
struct Annotation {
  Sha256Digest digest;
  std::optional<api::InjectionStatus> status;
};
struct ByDigest {
  using is_transparent = void;
  static const Sha256Digest& digest_of(const Annotation& annotation) { return annotation.digest; }
  static const Sha256Digest& digest_of(const Sha256Digest& digest) { return digest; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return digest_of(a) < digest_of(b);
  }
};

std::optional<api::InjectionStatus> read_injection(const std::string& text) {
  auto status = api::parse_injection_status(text);
  if (!status || api::exceeds_bounds(*status)) return std::nullopt;
  api::drop_removal_lists(*status);
  return std::move(*status);
}

std::shared_ptr<const api::InjectionStatus> injection_of(const json& annotations) {
  static SharedValues<Annotation, ByDigest> known;
  const json& annotation = at(annotations, api::kStatusAnnotation);
  if (!annotation.is_string()) return nullptr;
  const auto& injected = annotation.get_ref<const std::string&>();
  if (injected.size() > api::kLongestInjectionStatus) return nullptr;
  Sha256 hash;
  hash.update(injected);
  const Sha256Digest digest = hash.finish();
  const auto read = known.find_or_make(digest, [&] {
    return Annotation{digest, read_injection(injected)};
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
      return text(condition, "message", kLongestUnschedulable);
    }
  }
  return "";
}

bool is_true(const json& status, const char* type) {
  const json& conditions = at(status, "conditions");
  if (!conditions.is_array()) return false;
  return std::any_of(conditions.begin(), conditions.end(), [&](const json& condition) {
    return text(condition, "type") == type && text(condition, "status") == "True";
  });
}

// The cluster's fault: DisruptionTarget says that a pod is being evicted, the status'
// reason that it was ended ("Evicted", "DeadlineExceeded").
bool is_disrupted(const json& status) {
  return !text(status, "reason").empty() || is_true(status, "DisruptionTarget");
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

bool PodView::runs() const {
  if (injection == nullptr || containers == nullptr || ended()) return false;
  return std::any_of(containers->begin(), containers->end(), [&](const ContainerView& container) {
    return container.running && std::count(injection->containers.begin(),
                                           injection->containers.end(), container.name) > 0;
  });
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
  pod.ready = is_true(status, "ContainersReady");
  pod.containers = containers_of(status, pod.injection.get());
  return pod;
}

const kube::Fields& pod_fields() {
  static const kube::Fields kFields =
      kube::Fields{"/metadata/uid",
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
                   "/status/containerStatuses/lastState/terminated"}
          .with_elements(kMostElements);
  return kFields;
}

kube::Fields node_fields(const api::NodeLabels& names) {
  kube::Fields fields{"/metadata/labels/kubernetes.io~1arch",
                      "/metadata/labels/beta.kubernetes.io~1arch"};
  for (const auto* list : {&names.gpu_product, &names.driver_version, &names.cpu_features}) {
    for (const std::string& joined : *list) {
      for (const std::string& name : split(joined, '+')) {
        fields.add("/metadata/labels/" + kube::escaped(name));
      }
    }
  }
  return fields;
}

const kube::Fields& own_object_fields() {
  static const kube::Fields kFields{"/metadata/uid",
                                    "/metadata/generation",
                                    "/metadata/creationTimestamp",
                                    "/metadata/deletionTimestamp",
                                    "/metadata/ownerReferences",
                                    "/spec",
                                    "/status"};
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
