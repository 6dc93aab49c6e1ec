#include "operator/storage/sweep_job.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "base/time_format.hpp"
#include "kube/json.hpp"
#include "podspec/environment.hpp"
#include "podspec/volumes.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using podspec::SecretKeys;

constexpr char kPrivilegeAnnotation[] = "compilecache.dev/sweep-privilege";
constexpr char kStoreAnnotation[] = "compilecache.dev/sweep-store";
// Of a Job that somebody else wrote.
constexpr size_t kLongestStore = 1024, kLongestJobFailure = 512;

// Root with what it takes to make, own and clean directories of pods with other users. All three
// are among those that Pod Security "baseline" lets a pod add.
constexpr std::array<SweepPrivilege, 2> kPrivileges{{
    {"root", true, "baseline"},
    {"unprivileged", false, "restricted"},
}};

int64_t whole_seconds(std::chrono::milliseconds time) {
  return std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(time).count());
}

// Finished Jobs stay long enough to be looked at, but do not pile up where sweeps follow closely.
int64_t ttl_seconds(const api::CompileCache& cache, const Settings& settings) {
  const auto interval = std::max<std::chrono::milliseconds>(cache.spec.retention.sweep_interval,
                                                            std::chrono::seconds(30));
  return whole_seconds(std::min(interval, settings.sweep.ttl_after_finished));
}

api::AgentConfig agent_config(const api::CompileCache& cache, const SweepJobInput& input,
                              const Settings& settings) {
  api::AgentConfig config;
  config.cache = cache.metadata.name;
  config.ns = cache.metadata.ns;
  config.cache_uid = cache.metadata.uid;
  config.operator_address = input.agent_address;
  config.operator_port = input.agent_port;
  config.operator_name = input.agent_name;
  config.operator_ca = input.agent_ca;
  config.token_file = std::string(api::kTokenPath) + "/token";
  config.store = input.store;
  config.sweep.cluster_uid = input.cluster_uid;
  if (input.copy_from) {
    config.sweep.copy_from = input.copy_from;
    config.sweep.copy_name = api::copy_source_in_words(cache);
    config.sweep.copy_time = settings.sweep.deadline / 2;  // the rest is the last archive's
  }
  config.sweep.trusted_keys = cache.spec.trust.public_keys;
  const bool adopt = cache.spec.storage && cache.spec.storage->adopt;
  config.sweep.adopt = adopt && !input.adopted;
  config.sweep.adopted = adopt && input.adopted;
  return config;
}

json security_context(const SweepPrivilege& privilege) {
  json context = {{"allowPrivilegeEscalation", false},
                  {"readOnlyRootFilesystem", true},
                  {"capabilities", {{"drop", {"ALL"}}}},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (privilege.root) {
    context["runAsUser"] = 0;
    context["runAsGroup"] = 0;
    context["capabilities"]["add"] = {"CHOWN", "DAC_OVERRIDE", "FOWNER"};
  } else {
    context["runAsNonRoot"] = true;  // no user: some clusters assign ranges
  }
  return context;
}

template <typename Piece>
json json_list(const std::vector<Piece>& pieces) {
  json list = json::array();
  for (const std::string& text : podspec::to_json(pieces)) list.push_back(json::parse(text));
  return list;
}

// Only a user's registry lies beyond the cluster.
bool is_beyond(const api::StoreRef& store) {
  const api::RegistryRef* registry = store.registry();
  return registry != nullptr && !registry->own;
}

std::vector<std::string> proxy_of(const SweepJobInput& input) {
  if (is_beyond(input.store) || (input.copy_from && is_beyond(*input.copy_from)))
    return podspec::to_json(input.proxy);
  return {};
}

// A claim is mounted once.
bool is_of_one_claim(const SweepJobInput& input) {
  const api::VolumeRef* here = input.store.volume();
  const api::VolumeRef* source = input.copy_from ? input.copy_from->volume() : nullptr;
  return here != nullptr && source != nullptr && here->claim == source->claim;
}

json node_affinity(const std::string& node) {
  const json term = {
      {"matchFields",
       json::array({{{"key", "metadata.name"}, {"operator", "In"}, {"values", {node}}}})}};
  return {{"nodeAffinity",
           {{"requiredDuringSchedulingIgnoredDuringExecution",
             {{"nodeSelectorTerms", json::array({term})}}}}}};
}

json pod_spec(const api::CompileCache& cache, const SweepJobInput& input,
              const Settings& settings) {
  json container = {{"name", "sweep"},
                    {"image", input.image},
                    {"command", {"compilecache-agent"}},
                    {"args", {"sweep"}},
                    {"env", json::parse(podspec::agent_environment(
                                agent_config(cache, input, settings), proxy_of(input)))},
                    {"securityContext", security_context(kPrivileges.at(input.privilege))},
                    {"terminationMessagePolicy", "FallbackToLogsOnError"}};
  auto volumes = podspec::agent_volumes(input.store, SecretKeys::kAll);
  auto mounts = podspec::agent_mounts(input.store, false);
  if (input.copy_from && !is_of_one_claim(input)) {
    for (auto& volume : podspec::source_volumes(*input.copy_from)) volumes.push_back(volume);
    for (auto& mount : podspec::source_mounts(*input.copy_from)) mounts.push_back(mount);
  }
  container["volumeMounts"] = json_list(mounts);
  const ContainerResources& resources = settings.resources.sweep;
  if (!resources.requests.empty()) container["resources"]["requests"] = resources.requests;
  if (!resources.limits.empty()) container["resources"]["limits"] = resources.limits;

  json spec = {{"restartPolicy", "Never"},
               {"automountServiceAccountToken", false},
               {"enableServiceLinks", false},
               {"terminationGracePeriodSeconds", 10},
               {"containers", json::array({container})},
               {"volumes", json_list(volumes)}};
  if (!input.node.empty()) {
    spec["affinity"] = node_affinity(input.node);
    // Nodes with GPUs are often tainted, for pods that need one.
    spec["tolerations"] = json::array({{{"operator", "Exists"}, {"effect", "NoSchedule"}}});
  }
  return spec;
}

// Its store shows in the claim that it mounts, or in an annotation.
json annotations(const SweepJobInput& input) {
  json texts = {{kPrivilegeAnnotation, kPrivileges.at(input.privilege).name}};
  if (input.store.registry() != nullptr) texts[kStoreAnnotation] = input.store.id();
  return texts;
}

// The reason and message of the condition of that type that is True.
std::optional<std::string> true_condition(const json& object, const char* type) {
  if (!object.contains("/status/conditions"_json_pointer)) return std::nullopt;
  for (const json& condition : object.at("/status/conditions"_json_pointer)) {
    if (condition.value("type", "") == type && condition.value("status", "") == "True") {
      return condition.value("reason", "") + ": " + condition.value("message", "");
    }
  }
  return std::nullopt;
}

// As far as Kubernetes' names go.
std::string name_in(const json& object, const char* member) {
  return std::string(first_bytes(object.value(member, ""), 253));
}

SweepJob read_sweep_job(const json& object) {
  SweepJob job;
  job.ns = kube::string_at(object, {"metadata", "namespace"});
  job.name = kube::string_at(object, {"metadata", "name"});
  job.uid = kube::string_at(object, {"metadata", "uid"});
  job.deleting = object.contains("/metadata/deletionTimestamp"_json_pointer);
  if (auto created = parse_time(kube::string_at(object, {"metadata", "creationTimestamp"}))) {
    job.created = *created;
  }
  job.cache = object.at("metadata").at("labels").at(api::kSweepLabel).get<std::string>();
  for (const json& owner : object.at("metadata").value("ownerReferences", json::array())) {
    if (owner.value("kind", "") == "CompileCache") job.cache_uid = name_in(owner, "uid");
  }
  const json annotations = object.at("metadata").value("annotations", json::object());
  const std::string privilege = annotations.value(kPrivilegeAnnotation, "");
  for (size_t i = 0; i < kPrivileges.size(); ++i) {
    if (privilege == kPrivileges[i].name) job.privilege = i;
  }
  const std::string registry = annotations.value(kStoreAnnotation, "");
  if (!registry.empty() && registry.size() <= kLongestStore) job.store = registry;
  for (const json& volume : object.at("/spec/template/spec/volumes"_json_pointer)) {
    if (volume.contains("persistentVolumeClaim") &&
        volume.value("name", "") != api::kSourceVolume) {
      const std::string claim = name_in(volume.at("persistentVolumeClaim"), "claimName");
      job.store = api::StoreRef{api::VolumeRef{.ns = job.ns, .claim = claim}}.id();
    }
  }
  const json status = object.value("status", json::object());
  job.active = status.value("active", 0);
  if (true_condition(object, "Complete")) job.state = SweepJob::State::kSucceeded;
  if (auto failure = true_condition(object, "Failed")) {
    job.state = SweepJob::State::kFailed;
    job.failure = first_bytes(*failure, kLongestJobFailure);
  }
  return job;
}

}  // namespace

std::span<const SweepPrivilege> sweep_privileges() { return kPrivileges; }

size_t first_privilege(const api::StoreRef& store, const std::string& pod_security_level) {
  if (store.registry() != nullptr) return kPrivileges.size() - 1;
  return pod_security_level == "restricted" ? 1 : 0;
}

std::string sweep_job_name(const std::string& cache, const std::string& nonce) {
  std::string name = cache.substr(0, 40);
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name + "-sweep-" + nonce.substr(0, 8);
}

json sweep_job(const api::CompileCache& cache, const SweepJobInput& input,
               const Settings& settings) {
  const json labels = {{api::kSweepLabel, cache.metadata.name},
                       {"app.kubernetes.io/name", "compilecache-sweep"},
                       {"app.kubernetes.io/managed-by", "compilecache-operator"}};
  const json owner = {{"apiVersion", api::kApiVersion},
                      {"kind", "CompileCache"},
                      {"name", cache.metadata.name},
                      {"uid", cache.metadata.uid},
                      {"controller", true}};
  return {{"apiVersion", "batch/v1"},
          {"kind", "Job"},
          {"metadata",
           {{"name", input.name},
            {"namespace", cache.metadata.ns},
            {"labels", labels},
            {"annotations", annotations(input)},
            {"ownerReferences", json::array({owner})}}},
          {"spec",
           {{"backoffLimit", 0},
            {"completions", 1},
            {"parallelism", 1},
            {"activeDeadlineSeconds", whole_seconds(settings.sweep.deadline)},
            {"ttlSecondsAfterFinished", ttl_seconds(cache, settings)},
            {"template",
             {{"metadata", {{"labels", labels}}}, {"spec", pod_spec(cache, input, settings)}}}}}};
}

Result<SweepJob> parse_sweep_job(const json& object) try {
  return read_sweep_job(object);
} catch (const json::exception& error) {
  return fail(ErrorCode::kInvalid, std::string("reading a sweep Job: ") + error.what());
}

// Anyone may write a Job with our label; a sweep Job has four volumes.
const kube::Fields& sweep_job_fields() {
  static const kube::Fields kFields =
      kube::Fields{"/metadata/uid",
                   "/metadata/creationTimestamp",
                   "/metadata/deletionTimestamp",
                   std::string("/metadata/labels/") + kube::escaped(api::kSweepLabel),
                   std::string("/metadata/annotations/") + kube::escaped(kPrivilegeAnnotation),
                   std::string("/metadata/annotations/") + kube::escaped(kStoreAnnotation),
                   "/metadata/ownerReferences/kind",
                   "/metadata/ownerReferences/uid",
                   "/spec/template/spec/volumes/name",
                   "/spec/template/spec/volumes/persistentVolumeClaim/claimName",
                   "/status/active",
                   "/status/conditions/type",
                   "/status/conditions/status",
                   "/status/conditions/reason",
                   "/status/conditions/message"}
          .with_elements(64);
  return kFields;
}

std::string pod_trouble(const PodView& pod) {
  if (!pod.unschedulable.empty()) return "its pod cannot be scheduled: " + pod.unschedulable;
  if (pod.containers == nullptr) return {};
  for (const ContainerView& container : *pod.containers) {
    const std::string& reason = container.waiting_reason;
    if (reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing") continue;
    return "its container waits: " + reason + ": " + container.waiting_message;
  }
  return {};
}

}  // namespace compilecache::controller
