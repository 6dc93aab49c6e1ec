#include "webhook/workload.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "api/names.hpp"

namespace compilecache::webhook {
namespace {

// "KIND/NAME", where the name is not empty.
std::optional<std::string> named(std::string_view kind, std::string_view name) {
  if (name.empty()) return std::nullopt;
  return std::string(kind) + "/" + std::string(name);
}

// A name without "-SUFFIX"; empty where it does not end so.
std::string_view without_suffix(std::string_view name, std::string_view suffix) {
  if (suffix.empty() || name.size() <= suffix.size() + 1 || !name.ends_with(suffix)) return {};
  name.remove_suffix(suffix.size());
  if (name.back() != '-') return {};
  name.remove_suffix(1);
  return name;
}

// CronJobs name their Jobs "<name>-<minutes since 1970>": eight digits until the year 2160.
std::string_view cron_job_of(std::string_view job) {
  constexpr size_t kDigits = 8;
  if (job.size() <= kDigits) return {};
  const std::string_view digits = job.substr(job.size() - kDigits);
  const bool all = std::all_of(digits.begin(), digits.end(),
                               [](unsigned char c) { return std::isdigit(c) != 0; });
  return all ? without_suffix(job, digits) : std::string_view{};
}

// KubeRay names the clusters of a RayService or RayJob "<name>-raycluster-<random>", since 1.4
// "<name>-<random>": five characters of those that Kubernetes takes for random names.
std::string_view without_random(std::string_view cluster) {
  constexpr size_t kCharacters = 5;
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  if (cluster.size() <= kCharacters) return cluster;
  const std::string_view random = cluster.substr(cluster.size() - kCharacters);
  if (random.find_first_not_of(kAlphabet) != std::string_view::npos) return cluster;
  const std::string_view name = without_suffix(cluster, random);
  if (name.empty()) return cluster;
  const std::string_view service = without_suffix(name, "raycluster");
  return service.empty() ? name : service;
}

std::optional<std::string> of_replica_set(std::string_view name, const Json& labels) {
  const auto hash = [&](std::string_view label) {
    return without_suffix(name, text_member(labels, label));
  };
  auto rollout = named("Rollout", hash("rollouts-pod-template-hash"));
  return rollout ? rollout : named("Deployment", hash("pod-template-hash"));
}

std::optional<std::string> of_ray_cluster(std::string_view name, const Json& labels) {
  const std::string_view kind = text_member(labels, "ray.io/originated-from-crd");
  if (!kind.empty()) {
    if (auto owner = named(kind, text_member(labels, "ray.io/originated-from-cr-name"))) {
      return owner;
    }
  }
  return named("RayCluster", without_random(name));
}

// Longer than any kind and name, and of no use in a key.
constexpr size_t kLongestWorkload = 320;

std::string of_bare_pod(const Json& pod) {
  const Json& annotations = object_member(object_member(pod, "metadata"), "annotations");
  const std::string_view said = text_member(annotations, api::kWorkloadAnnotation);
  return said.size() > kLongestWorkload ? std::string() : std::string(said);
}

}  // namespace

std::string workload_of(const Json& pod) {
  const Json& owner = controller_of(pod);
  const Json& labels = object_member(object_member(pod, "metadata"), "labels");
  const std::string_view kind = text_member(owner, "kind");
  const std::string_view name = text_member(owner, "name");
  if (kind.empty() || name.empty()) return of_bare_pod(pod);
  std::optional<std::string> above;
  if (kind == "ReplicaSet") {
    above = of_replica_set(name, labels);
  } else if (kind == "Job") {
    above = named("JobSet", text_member(labels, "jobset.sigs.k8s.io/jobset-name"));
    if (!above) above = named("CronJob", cron_job_of(name));
  } else if (kind == "StatefulSet") {
    above = named("LeaderWorkerSet", text_member(labels, "leaderworkerset.sigs.k8s.io/name"));
  } else if (kind == "RayCluster") {
    above = of_ray_cluster(name, labels);
  }
  return above ? *above : std::string(kind) + "/" + std::string(name);
}

bool is_of_group(const Json& pod) {
  constexpr std::array kLabels{"leaderworkerset.sigs.k8s.io/name",
                               "jobset.sigs.k8s.io/jobset-name",
                               "ray.io/cluster",
                               "volcano.sh/job-name",
                               "scheduling.x-k8s.io/pod-group",
                               "kueue.x-k8s.io/pod-group-name"};
  const Json& labels = object_member(object_member(pod, "metadata"), "labels");
  return std::any_of(kLabels.begin(), kLabels.end(),
                     [&](const char* label) { return !text_member(labels, label).empty(); });
}

}  // namespace compilecache::webhook
