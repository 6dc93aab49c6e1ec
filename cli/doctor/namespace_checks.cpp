#include <algorithm>

#include "api/names.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/inject/inject_manifests.hpp"
#include "cli/status/cache_overview.hpp"
#include "cli/text/json_at.hpp"
#include "kube/json.hpp"
#include "operator/settings/injection_settings.hpp"

// Checks of the namespace in which pods are to be injected, and of the registry that they use.

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kSample[] = "doctor";
constexpr char kRegistryTroubleCondition[] = "RegistryTrouble";

std::string why_not_injected(const ClusterFacts& facts) {
  const json webhook = facts.webhooks ? webhook_among(*facts.webhooks) : json();
  if (!webhook.is_null() && facts.ns_object) {
    const std::string out =
        why_not_sent(webhook, at(*facts.ns_object, "/metadata/labels"), json::object());
    if (!out.empty()) return out;
  }
  return "see that the API server reaches port 9443 of the operator's pods (docs/run/platforms.md)";
}

// The webhook's verdict on a small pod with requests and limits in the namespace.
Result<InjectedManifests> inject_sample(const ClusterFacts& facts) {
  const json pod = {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", kSample}, {"annotations", {{api::kCacheAnnotation, kSample}}}}},
      {"spec",
       {{"containers",
         {{{"name", "app"},
           {"image", "app"},
           {"resources",
            {{"requests", {{"cpu", "10m"}, {"memory", "16Mi"}}},
             {"limits", {{"cpu", "20m"}, {"memory", "32Mi"}}}}}}}}}}};
  const json cache = {
      {"apiVersion", api::kApiVersion},
      {"kind", "CompileCache"},
      {"metadata", {{"name", kSample}}},
      {"spec",
       {{"storage", {{"claimName", kSample}}}, {"frameworks", {facts.sample_framework()}}}}};
  ManifestFile file{kSample, {Manifest::parse(pod.dump()), Manifest::parse(cache.dump())}};
  const auto add = [&](const json& items, const char* kind) {
    for (json one : items) {
      one["apiVersion"] = "v1";
      one["kind"] = kind;
      file.documents.push_back(Manifest::parse(one.dump()));
    }
  };
  add(*facts.limit_ranges, "LimitRange");
  add(*facts.quotas, "ResourceQuota");
  return inject_manifests(
      {.files = {file},
       .ns = facts.ns,
       .settings = controller::injection_settings(facts.settings, facts.operator_ns, kSample)});
}

// In mode ForceCold a pod gets variables and neither containers nor an annotation of its status.
bool was_injected(const json& pod, bool with_cache) {
  if (with_cache) {
    return !kube::string_at(pod, {"metadata", "annotations", api::kStatusAnnotation}).empty();
  }
  const json& env = at(pod, "/spec/containers/0/env");
  return env.is_array() && !env.empty();
}

bool uses_installed_registry(const json& cache) {
  const json& storage = at(cache, "/spec/storage");
  return storage.is_object() && !storage.contains("claimName") && !storage.contains("registry");
}

// The troubles that the operator has with the installed registry, as a CompileCache has them.
Findings registry_troubles(const json& cache) {
  Findings findings;
  const std::string name = "CompileCache " + text_in(cache, "/metadata/name") + ": ";
  const auto conditions = api::parse_conditions(at(cache, "/status"));
  const auto* trouble = api::find_condition(conditions, kRegistryTroubleCondition);
  if (trouble != nullptr && trouble->status == "True") {
    findings.push_back(
        {Level::kWarn, "registry", name + trouble->reason + ": " + trouble->message, ""});
  }
  const auto* storage = api::find_condition(conditions, api::kStorageReadyCondition);
  if (storage != nullptr && storage->status == "True" &&
      (storage->reason == "RegistryFull" || storage->reason == "QuotaExceeded" ||
       storage->reason == "NotSwept")) {
    findings.push_back(
        {Level::kWarn, "registry", name + storage->reason + ": " + storage->message, ""});
  }
  return findings;
}

Finding check_registry_runs(const ClusterFacts& facts) {
  if (!facts.registry_deployment) {
    return unread("registry", facts.registry_deployment.error(),
                  "get Deployment compilecache-registry in " + facts.operator_ns);
  }
  const json& ready = at(*facts.registry_deployment, "/status/readyReplicas");
  if (ready.is_number_integer() && ready.get<int>() > 0) {
    return {Level::kOk, "registry", "installed in " + facts.operator_ns + ", ready", ""};
  }
  return {Level::kFail, "registry", "installed in " + facts.operator_ns + ", not ready",
          "kubectl describe deploy compilecache-registry -n " + facts.operator_ns};
}

Findings check_cache(const json& object) {
  const std::string check = "cache";
  const std::string name = text_in(object, "/metadata/name");
  const auto cache = api::parse_compile_cache(object);
  if (!cache)
    return {{Level::kFail, check, name + " cannot be read: " + cache.error().message, ""}};
  const CacheOverview overview = overview_of(*cache, {});
  if (overview.ready == "True" && overview.wrong.empty()) {
    return {{Level::kOk, check, name + " is Ready", ""}};
  }
  Findings findings;
  for (const WrongCondition& wrong : overview.wrong) {
    const bool serious = overview.ready != "True";
    findings.push_back({serious ? Level::kFail : Level::kWarn, check,
                        name + ": " + wrong.type + ", " + wrong.reason +
                            (wrong.message.empty() ? "" : ": " + wrong.message),
                        ""});
  }
  return findings;
}

}  // namespace

Findings check_injection(const ClusterFacts& facts) {
  constexpr char kCheck[] = "injection";
  if (!facts.tried) return {};
  const auto& pod = facts.tried->pod;
  if (!pod && pod.error().code == ErrorCode::kForbidden) {
    return {unread(kCheck, pod.error(), "create pods in " + facts.ns + " (dry run)")};
  }
  if (!pod) {
    return {{Level::kWarn, kCheck, "the API server refuses a small pod: " + pod.error().message,
             "see whether it would take yours"}};
  }
  if (!was_injected(*pod, facts.tried->with_cache)) {
    return {{Level::kFail, kCheck, "an annotated pod in " + facts.ns + " is not injected (dry run)",
             why_not_injected(facts)}};
  }
  return {{Level::kOk, kCheck,
           facts.tried->with_cache
               ? "an annotated pod in " + facts.ns + " is injected (dry run)"
               : "the webhook answers (dry run); no CompileCache in " + facts.ns + " is Ready",
           ""}};
}

Findings check_quotas(const ClusterFacts& facts) {
  constexpr char kCheck[] = "quota";
  if (!facts.quotas)
    return {unread(kCheck, facts.quotas.error(), "list ResourceQuotas in " + facts.ns)};
  if (!facts.limit_ranges) {
    return {unread(kCheck, facts.limit_ranges.error(), "list LimitRanges in " + facts.ns)};
  }
  const auto injected = inject_sample(facts);
  if (!injected) return {{Level::kWarn, kCheck, injected.error().message, ""}};
  for (const TemplateReport& report : injected->reports) {
    if (report.report.outcome == webhook::InjectionOutcome::kSkipped) {
      return {{Level::kWarn, kCheck, report.report.message,
               "raise it, or lower resources in the settings"}};
    }
  }
  return {{Level::kOk, kCheck, "the injected containers fit into " + facts.ns, ""}};
}

Findings check_registry(const ClusterFacts& facts) {
  const json none = json::array();
  const json& caches = facts.caches ? *facts.caches : none;
  const bool needed = std::any_of(caches.begin(), caches.end(), uses_installed_registry);
  if (!facts.registry_service) {
    if (facts.registry_service.error().code != ErrorCode::kNotFound) {
      return {unread("registry", facts.registry_service.error(),
                     "get Service compilecache-registry in " + facts.operator_ns)};
    }
    if (!needed) return {{Level::kOk, "registry", "none is installed, and none is needed", ""}};
    return {{Level::kFail, "registry", "CompileCaches need it, and none is installed",
             "install it: docs/how-to/storage/own-registry.md"}};
  }
  Findings findings{check_registry_runs(facts)};
  for (const json& cache : caches) {
    if (!uses_installed_registry(cache)) continue;
    const Findings troubles = registry_troubles(cache);
    findings.insert(findings.end(), troubles.begin(), troubles.end());
  }
  if (needed && findings.size() == 1) {
    findings.push_back(
        {Level::kOk, "registry", "no trouble with room, collection or tokens is reported", ""});
  }
  return findings;
}

Findings check_caches(const ClusterFacts& facts) {
  if (!facts.caches) {
    return {unread("cache", facts.caches.error(), "list CompileCaches in " + facts.ns)};
  }
  if (facts.caches->empty()) {
    return {{Level::kOk, "cache", "there is no CompileCache in " + facts.ns,
             "create one: kubectl compilecache enable deployment/NAME"}};
  }
  Findings findings;
  for (const json& cache : *facts.caches) {
    const Findings found = check_cache(cache);
    findings.insert(findings.end(), found.begin(), found.end());
  }
  return findings;
}

Findings check_all(const ClusterFacts& facts) {
  Findings all;
  const auto add = [&](const Findings& more) { all.insert(all.end(), more.begin(), more.end()); };
  add(check_versions(facts));
  if (facts.preflight) add(check_rights(facts));
  if (facts.installed()) {
    add(check_webhook(facts));
    add(check_certificates(facts));
    add(check_injection(facts));
  }
  add(check_nodes(facts));
  add(check_storage(facts));
  add(check_network(facts));
  add(check_quotas(facts));
  if (facts.installed()) {
    add(check_registry(facts));
    add(check_caches(facts));
  }
  return all;
}

}  // namespace compilecache::cli
