#include "cli/doctor/cluster_reading.hpp"

#include <utility>

#include "api/choices.hpp"
#include "api/conditions.hpp"
#include "api/names.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/release.hpp"
#include "cli/cluster/operator_settings.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/text/json_at.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kDefaultNamespace[] = "compilecache-system";
constexpr char kOperatorLabel[] = "app.kubernetes.io/name=compilecache-operator";
constexpr char kCertificatesSecret[] = "compilecache-certificates";

const kube::Resource kStorageClasses{"storage.k8s.io", "v1", "storageclasses", false,
                                     "StorageClass"};
const kube::Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies", true,
                                      "NetworkPolicy"};
const kube::Resource kAccessReviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews", false,
                                    "SelfSubjectAccessReview"};

// Objects that an installation creates, and not everybody may.
struct InstalledKind {
  const char *group, *resource;
};
constexpr InstalledKind kInstalledKinds[] = {
    {"apiextensions.k8s.io", "customresourcedefinitions"},
    {"rbac.authorization.k8s.io", "clusterroles"},
    {"admissionregistration.k8s.io", "mutatingwebhookconfigurations"},
    {"", "namespaces"}};

// A pod that every level of Pod Security and most quotas take.
json small_pod(const std::string& ns, const json& annotations) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", "compilecache-doctor-" + random_id(system_random()).substr(0, 8)},
            {"namespace", ns},
            {"annotations", annotations}}},
          {"spec",
           {{"serviceAccountName", "default"},  // the injection's token needs the name
            {"securityContext",
             {{"runAsNonRoot", true},
              {"runAsUser", 65532},
              {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
            {"containers",
             {{{"name", "app"},
               {"image", "registry.k8s.io/pause:3.10"},
               {"resources",
                {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}},
                 {"limits", {{"cpu", "20m"}, {"memory", "32Mi"}}}}},
               {"securityContext",
                {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}}}}}}};
}

// The name of a CompileCache that is Ready; empty if none is.
std::string ready_cache(const Result<json>& caches) {
  if (!caches) return "";
  for (const json& cache : *caches) {
    const auto conditions = api::parse_conditions(at(cache, "/status"));
    if (api::is_true(conditions, api::kReadyCondition)) return text_in(cache, "/metadata/name");
  }
  return "";
}

class Reading {
 public:
  Reading(const Cluster& cluster, const ReadingOptions& options)
      : client_(cluster.client), options_(options) {
    facts_.ns = cluster.ns;
    facts_.preflight = options.preflight;
    facts_.now = SystemClock::instance().wall();
    facts_.plugin_version = release();
  }

  Result<ClusterFacts> read() {
    facts_.server = raw("/version");
    if (!facts_.server && facts_.server.error().code != ErrorCode::kForbidden) {
      return unexpected(facts_.server.error());
    }
    facts_.group = raw("/apis/compilecache.dev");
    facts_.webhooks = list(kube::resources::kMutatingWebhookConfigurations, {});
    find_operator();
    if (const Status good = read_settings(); !good) return unexpected(good.error());
    read_installation();
    read_environment();
    read_namespace();
    if (facts_.installed()) try_pod();
    if (facts_.preflight) review_rights();
    return std::move(facts_);
  }

 private:
  [[nodiscard]] Result<json> raw(const std::string& path) const {
    const auto text = client_.raw("GET", path);
    if (!text) return unexpected(text.error());
    json answer = json::parse(*text, nullptr, false);
    if (answer.is_discarded()) return fail(ErrorCode::kInvalid, path + " answers no JSON");
    return answer;
  }
  [[nodiscard]] Result<json> list(const kube::Resource& resource,
                                  const kube::ListOptions& options) const {
    auto listed = client_.list_all(resource, options);
    if (!listed) return unexpected(listed.error());
    return std::move(listed->at("items"));
  }

  void find_operator() {
    const json webhook = facts_.webhooks ? webhook_among(*facts_.webhooks) : json();
    facts_.operator_ns = options_.operator_ns;
    if (facts_.operator_ns.empty()) {
      facts_.operator_ns = text_in(webhook, "/clientConfig/service/namespace");
    }
    if (facts_.operator_ns.empty()) facts_.operator_ns = kDefaultNamespace;
    facts_.operators = list(kube::resources::kDeployments,
                            {.ns = facts_.operator_ns, .label_selector = kOperatorLabel});
    std::string service = text_in(webhook, "/clientConfig/service/name");
    if (service.empty()) service = api::kWebhookService;
    facts_.endpoints =
        list(kube::resources::kEndpointSlices,
             {.ns = facts_.operator_ns, .label_selector = "kubernetes.io/service-name=" + service});
  }

  Status read_settings() {
    auto settings = cli::read_settings(client_, facts_.operator_ns);
    if (!settings) return unexpected(settings.error());
    facts_.settings = std::move(*settings);
    return {};
  }

  void read_installation() {
    const std::string& ns = facts_.operator_ns;
    facts_.certificates = client_.get(kube::resources::kSecrets, ns, kCertificatesSecret);
    facts_.registry_service = client_.get(kube::resources::kServices, ns, api::kRegistryService);
    facts_.registry_deployment =
        client_.get(kube::resources::kDeployments, ns, api::kRegistryService);
    facts_.operator_ns_object = client_.get(kube::resources::kNamespaces, "", ns);
  }

  void read_environment() {
    facts_.nodes = list(kube::resources::kNodes, {});
    facts_.storage_classes = list(kStorageClasses, {});
  }

  void read_namespace() {
    const kube::ListOptions here{.ns = facts_.ns};
    facts_.ns_object = client_.get(kube::resources::kNamespaces, "", facts_.ns);
    facts_.claims = list(kube::resources::kPersistentVolumeClaims, here);
    facts_.caches = list(controller::resources::kCompileCaches, here);
    facts_.network_policies = list(kNetworkPolicies, here);
    facts_.limit_ranges = list(kube::resources::kLimitRanges, here);
    facts_.quotas = list(kube::resources::kResourceQuotas, here);
  }

  // In mode ForceCold the webhook adds variables to a pod without looking at its CompileCache.
  void try_pod() {
    const std::string cache = ready_cache(facts_.caches);
    json annotations = {{api::kCacheAnnotation, cache.empty() ? "doctor" : cache}};
    if (cache.empty()) {
      annotations[api::kModeAnnotation] = api::to_string(api::Mode::kForceCold);
      annotations[api::kFrameworksAnnotation] = facts_.sample_framework();
    }
    facts_.tried = TriedPod{client_.create(kube::resources::kPods,
                                           small_pod(facts_.ns, annotations), {.dry_run = true}),
                            !cache.empty()};
  }

  void review_rights() {
    for (const InstalledKind& kind : kInstalledKinds) {
      const json review = {
          {"apiVersion", "authorization.k8s.io/v1"},
          {"kind", kAccessReviews.kind},
          {"spec",
           {{"resourceAttributes",
             {{"verb", "create"}, {"group", kind.group}, {"resource", kind.resource}}}}}};
      const auto answer = client_.create(kAccessReviews, review);
      Result<bool> allowed = answer ? Result<bool>(at(*answer, "/status/allowed") == true)
                                    : Result<bool>(unexpected(answer.error()));
      facts_.rights.push_back({kind.resource, std::move(allowed)});
    }
  }

  const kube::Client& client_;
  const ReadingOptions& options_;
  ClusterFacts facts_;
};

}  // namespace

Result<ClusterFacts> read_cluster(const Cluster& cluster, const ReadingOptions& options) {
  return Reading(cluster, options).read();
}

}  // namespace compilecache::cli
