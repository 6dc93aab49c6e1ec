#include "cli/prewarm/prewarm_plan.hpp"

#include <algorithm>
#include <set>

#include "api/agent_config.hpp"
#include "api/conditions.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "cli/cluster/plain_error.hpp"
#include "cli/prewarm/prewarm_watch.hpp"
#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

std::string annotation_of(const json& pod, const char* name) {
  return kube::string_at(pod, {"metadata", "annotations", name});
}

class Planner {
 public:
  Planner(const kube::Client& client, const WorkloadTemplate& workload, const PrewarmWish& wish)
      : client_(client), workload_(workload), wish_(wish) {}

  Result<PrewarmPlan> plan(const api::NodeLabels& labels) {
    pod_ = prewarm_pod(workload_, prewarm_name(workload_.name, "dry-run0"), std::chrono::hours(1));
    if (const Status good = read_cache(); !good) return unexpected(good.error());
    if (const Status good = set_modes(); !good) return unexpected(good.error());
    if (const Status good = leave_services(); !good) return unexpected(good.error());
    const auto basis = basis_with_images();
    if (!basis) return unexpected(basis.error());
    const auto kinds = wanted_kinds(*basis, labels);
    if (!kinds) return unexpected(kinds.error());
    for (const GpuKind& kind : *kinds) add(kind);
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string what() const {
    return workload_.kind + " " + workload_.ns + "/" + workload_.name;
  }

  Status read_cache() {
    const std::string name = annotation_of(pod_, api::kCacheAnnotation);
    if (name.empty()) {
      return fail(ErrorCode::kInvalid, "the pod template of " + what() + " has no annotation " +
                                           api::kCacheAnnotation + "; nothing is to be warmed");
    }
    const auto object = client_.get(controller::resources::kCompileCaches, workload_.ns, name);
    if (!object) {
      return unexpected(not_read(object.error(), "CompileCache", workload_.ns, name));
    }
    auto cache = api::parse_compile_cache(*object);
    if (!cache) return unexpected(cache.error());
    cache_ = std::move(*cache);
    const auto archives =
        client_.list_all(controller::resources::kCompileCacheArchives, {.ns = workload_.ns});
    if (!archives) return unexpected(plain_error(archives.error()));
    for (const json& item : archives->at("items")) {
      auto archive = api::parse_archive(item);
      if (archive && archive->cache == name) archives_.push_back(std::move(*archive));
    }
    return {};
  }

  // Modes and policies with which a pod saves nothing.
  Status set_modes() {
    const std::string mode = annotation_of(pod_, api::kModeAnnotation);
    if (mode == api::to_string(api::Mode::kDisabled) ||
        mode == api::to_string(api::Mode::kForceCold)) {
      return fail(ErrorCode::kInvalid, "the pods of " + what() +
                                           " load nothing: their annotation " +
                                           std::string(api::kModeAnnotation) + " is " + mode);
    }
    if (cache_.spec.save.policy == api::SavePolicy::kNever) {
      return fail(ErrorCode::kInvalid, "CompileCache " + cache_.metadata.name +
                                           " saves nothing: its spec.save.policy is Never");
    }
    if (mode == api::to_string(api::Mode::kReadOnly)) {
      pod_["metadata"]["annotations"][api::kModeAnnotation] = api::to_string(api::Mode::kReadWrite);
      plan_.notes.push_back("its pods only load (mode ReadOnly); the one that warms saves, too");
    }
    return {};
  }

  // A selector that cannot be read may use any label.
  Status leave_services() {
    static const std::vector<kube::Resource> kSelecting{
        kube::resources::kServices,
        kube::resources::kDeployments,
        kube::resources::kReplicaSets,
        {"", "v1", "replicationcontrollers", true, "ReplicationController"},
        {"apps", "v1", "statefulsets", true, "StatefulSet"},
        {"apps", "v1", "daemonsets", true, "DaemonSet"},
        kube::resources::kJobs,
        {"policy", "v1", "poddisruptionbudgets", true, "PodDisruptionBudget"}};
    std::vector<PodSelector> selectors{{what(), workload_.selector}};
    for (const kube::Resource& resource : kSelecting) {
      const auto listed = client_.list_all(resource, {.ns = workload_.ns});
      if (!listed) {
        strip_labels(pod_);
        plan_.notes.push_back(
            "the pod has none of the template's labels, since it cannot be known "
            "who selects by them: listing " +
            resource.plural + ": " + listed.error().message);
        break;
      }
      for (const json& item : listed->at("items")) {
        selectors.push_back(selector_of(resource.kind, item));
      }
    }
    const Detached detached = detach(pod_, selectors);
    if (detached.still.empty()) return {};
    return fail(ErrorCode::kInvalid, "whatever labels a pod has, it would be taken for one of " +
                                         join(detached.still, ", "));
  }

  // The webhook's injection into the pod.
  Result<api::InjectionStatus> injection() const {
    const auto made = client_.create(kube::resources::kPods, pod_, {.dry_run = true});
    if (!made) {
      return unexpected(plain_error(made.error()).with("a pod of " + what()));
    }
    const std::string status = annotation_of(*made, api::kStatusAnnotation);
    if (!status.empty()) return api::parse_injection_status(status);
    const api::Condition* ready =
        api::find_condition(cache_.status.conditions, api::kReadyCondition);
    std::string why =
        "the webhook did not say why; kubectl apply --dry-run=server shows its "
        "warnings, and docs/troubleshoot/reasons.md explains them";
    if (ready == nullptr) {
      why = "the operator has said nothing of CompileCache " + cache_.metadata.name + " yet";
    } else if (ready->status != "True") {
      why = "CompileCache " + cache_.metadata.name + " is not ready: " + ready->reason + ": " +
            ready->message;
    }
    return fail(ErrorCode::kUnavailable, "a pod of " + what() + " would not be injected: " + why);
  }

  Result<api::KeyBasis> basis_with_images() {
    auto status = injection();
    if (!status) return unexpected(status.error());
    for (const std::string& wish : wish_.images) {
      const size_t equal = wish.find('=');
      const std::string container = equal == std::string::npos
                                        ? (status->containers.empty() ? "" : status->containers[0])
                                        : wish.substr(0, equal);
      const std::string image = equal == std::string::npos ? wish : wish.substr(equal + 1);
      if (const Status set = set_image(pod_, container, image); !set) {
        return unexpected(set.error());
      }
    }
    if (!wish_.images.empty()) status = injection();
    if (!status) return unexpected(status.error());
    const auto& parts = status->key_basis.parts;
    if (std::find(parts.begin(), parts.end(), api::kWorkloadPart) != parts.end() &&
        status->key_basis.workload != workload_.workload()) {
      return fail(ErrorCode::kInvalid, "spec.key has Workload, and the operator (" +
                                           status->version + ") does not take a pod for one of " +
                                           workload_.workload() + "; upgrade it");
    }
    return status->key_basis;
  }

  Result<std::vector<GpuKind>> wanted_kinds(const api::KeyBasis& basis,
                                            const api::NodeLabels& labels) {
    if (basis.claims) {
      return fail(ErrorCode::kInvalid,
                  "the pods of " + what() +
                      " get their devices by resourceClaims, and which kind that will be is known "
                      "only of a pod that runs; scale up by one pod instead");
    }
    const auto listed = client_.list_all(kube::resources::kNodes, {});
    if (!listed) {
      return unexpected(
          plain_error(listed.error()).with("the labels of nodes are part of the key"));
    }
    auto kinds =
        gpu_kinds(basis, pod_["spec"], listed->at("items").get<std::vector<json>>(), labels);
    std::string there;
    for (const GpuKind& kind : kinds) there += (there.empty() ? "" : "; ") + kind.product;
    if (kinds.empty()) {
      return fail(ErrorCode::kNotFound,
                  "no node that a pod of " + what() + " may run on has " +
                      (basis.gpu_resource.empty()
                           ? "an architecture"
                           : std::to_string(basis.gpu_count) + " " + basis.gpu_resource +
                                 " and a label with its product") +
                      ", so there is nothing to warm it on");
    }
    for (const std::string& product : wish_.products) {
      if (std::none_of(kinds.begin(), kinds.end(),
                       [&](const GpuKind& kind) { return kind.product == product; })) {
        return fail(ErrorCode::kNotFound, "--gpu: no node that a pod of " + what() +
                                              " may run on has " + product +
                                              "; there are: " + there);
      }
    }
    const std::set<std::string> chosen = chosen_products();
    if (chosen.empty()) return kinds;
    std::vector<GpuKind> wanted;
    for (GpuKind& kind : kinds) {
      if (chosen.contains(kind.product)) {
        wanted.push_back(std::move(kind));
      } else if (wish_.products.empty()) {
        plan_.notes.push_back("left out: " + kind.product +
                              ", of which the CompileCache has no archive; --all takes it in");
      }
    }
    if (!wanted.empty()) return wanted;
    plan_.notes.clear();
    return gpu_kinds(basis, pod_["spec"], listed->at("items").get<std::vector<json>>(), labels);
  }

  // Empty: all.
  [[nodiscard]] std::set<std::string> chosen_products() const {
    if (!wish_.products.empty()) return {wish_.products.begin(), wish_.products.end()};
    std::set<std::string> used;
    if (wish_.all_products) return used;
    for (const api::CompileCacheArchive& archive : archives_) {
      const auto product = archive.key.find(api::kGpuProductPart);
      if (product != archive.key.end() && archive.head.exists()) used.insert(product->second);
    }
    return used;
  }

  void add(const GpuKind& kind) {
    PrewarmTarget target{.ns = workload_.ns,
                         .workload = workload_.workload(),
                         .cache = cache_.metadata.name,
                         .archive = "",
                         .kind = kind,
                         .pod = pod_};
    restrict_to(kind, target.pod["spec"]);
    for (const api::CompileCacheArchive& archive : archives_) {
      if (!api::is_same_but_cpu(archive.key, kind.key)) continue;
      target.generations[archive.metadata.name] = archive.head.generation;
      if (is_usable(archive)) {
        target.archive = archive.metadata.name;
        target.warm = true;
      }
    }
    plan_.targets.push_back(std::move(target));
  }

  const kube::Client& client_;
  const WorkloadTemplate& workload_;
  const PrewarmWish& wish_;
  json pod_;
  api::CompileCache cache_;
  std::vector<api::CompileCacheArchive> archives_;
  PrewarmPlan plan_;
};

}  // namespace

Result<PrewarmPlan> plan_prewarm(const kube::Client& client, const WorkloadTemplate& workload,
                                 const PrewarmWish& wish, const api::NodeLabels& labels) {
  return Planner(client, workload, wish).plan(labels);
}

}  // namespace compilecache::cli
