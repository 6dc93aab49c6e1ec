#include "cli/enable/enable_plan.hpp"

#include <algorithm>
#include <utility>

#include "api/choices.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"
#include "cli/enable/detect_frameworks.hpp"
#include "cli/enable/roll_out.hpp"
#include "cli/inject/inject_manifests.hpp"
#include "cli/inject/template_places.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/manifest_yaml.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

constexpr char kClaim[] = "claim=", kRegistry[] = "registry";
constexpr size_t kLongestName = 63;

std::string annotation_of(const json& pod_template, const char* name) {
  return kube::string_at(pod_template, {"metadata", "annotations", name});
}

// A JSON pointer's step: "compilecache.dev/cache" has a slash.
std::string step(std::string text) {
  std::string escaped;
  for (const char c : text) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return "/" + escaped;
}

// Members that are missing on the way are added too. The test makes it a compare-and-swap.
json json_patch(const WorkloadTemplate& workload, const json& annotations) {
  const std::string metadata = workload.template_path + "/metadata";
  json patch = json::array(
      {{{"op", "test"}, {"path", workload.template_path}, {"value", workload.pod_template}}});
  const auto add = [&](const std::string& path, const json& value) {
    patch.push_back({{"op", "add"}, {"path", path}, {"value", value}});
  };
  if (!at(workload.pod_template, "/metadata").is_object()) {
    add(metadata, {{"annotations", annotations}});
  } else if (!at(workload.pod_template, "/metadata/annotations").is_object()) {
    add(metadata + "/annotations", annotations);
  } else {
    for (const auto& [name, value] : annotations.items()) {
      add(metadata + "/annotations" + step(name), value);
    }
  }
  return patch;
}

// Without the addresses, which the operator knows, stores in a registry count as not ready.
webhook::InjectionSettings with_addresses(webhook::InjectionSettings settings) {
  if (settings.agent_address.empty()) settings.agent_address = "192.0.2.1";
  if (!settings.own_registry.installed()) {
    settings.own_registry = {api::kRegistryService, "192.0.2.1:5000"};
  }
  return settings;
}

// Frameworks and devices are those of the operator's settings, which the user may not read.
bool is_of_settings(const webhook::InjectionReport& report) {
  return report.reason == api::InjectionReason::kUnknownFramework ||
         report.reason == api::InjectionReason::kUnknownDevice;
}

class EnablePlanner {
 public:
  explicit EnablePlanner(const EnableInput& input)
      : input_(input),
        workload_(input.workload),
        detected_(detect_frameworks(workload_.pod_template, input.settings.traps)) {
    plan_.ns = workload_.ns;
    plan_.kind = workload_.kind;
    plan_.name = workload_.name;
    plan_.api_version = kube::string_at(input.object, {"apiVersion"});
    plan_.cache_name = cache_name_for(workload_, input.cache);
  }

  Result<EnablePlan> plan() {
    if (const Status good = check_workload(); !good) return unexpected(good.error());
    if (const Status good = plan_cache(); !good) return unexpected(good.error());
    plan_patch();
    if (const Status good = check_injection(); !good) return unexpected(good.error());
    if (plan_.patch.is_null()) return std::move(plan_);
    plan_.consequence = roll_out_of(input_.object, workload_);
    const std::string manager = manager_of(input_.object);
    if (!manager.empty()) {
      plan_.notes.push_back(manager + " manages this " + workload_.kind +
                            " and may undo the patch: write both into its manifests");
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string what() const {
    return workload_.kind + " " + workload_.ns + "/" + workload_.name;
  }
  [[nodiscard]] Status refuse(const std::string& why) const {
    return fail(ErrorCode::kInvalid, what() + " cannot be enabled: " + why);
  }

  [[nodiscard]] Status check_workload() const {
    const std::string written = annotation_of(workload_.pod_template, api::kCacheAnnotation);
    if (!written.empty() && written != plan_.cache_name) {
      return refuse("its pod template names CompileCache \"" + written +
                    "\" already; leave out --cache, or change the annotation yourself");
    }
    const std::string mode = annotation_of(workload_.pod_template, api::kModeAnnotation);
    if (mode == api::to_string(api::Mode::kDisabled)) {
      return refuse("its pod template has the annotation " + std::string(api::kModeAnnotation) +
                    ": Disabled; remove it first");
    }
    if (!written.empty()) return {};
    const std::string fixed = why_fixed(input_.object, workload_);
    return fixed.empty() ? Status() : refuse(fixed);
  }

  Status plan_cache() {
    if (!input_.existing.is_null()) return check_existing();
    if (plan_.cache_name.size() > kLongestName) {
      return refuse("\"" + plan_.cache_name + "\" has more than " + std::to_string(kLongestName) +
                    " characters; name the CompileCache with --cache");
    }
    const auto storage = storage_json();
    if (!storage) return unexpected(storage.error());
    json spec = {{"storage", *storage}, {"frameworks", detected_.frameworks}};
    if (detected_.start_kit) spec["startKit"] = true;
    plan_.cache = {{"apiVersion", api::kApiVersion},
                   {"kind", "CompileCache"},
                   {"metadata", {{"name", plan_.cache_name}, {"namespace", workload_.ns}}},
                   {"spec", spec}};
    plan_.notes.push_back("frameworks " + join(detected_.frameworks, ", ") + ": " + detected_.why);
    return {};
  }

  [[nodiscard]] Status check_existing() {
    if (!input_.storage.empty()) {
      return refuse("CompileCache " + plan_.cache_name +
                    " exists and has its own storage; leave out --storage, or give another name "
                    "with --cache");
    }
    const auto cache = api::parse_compile_cache(input_.existing);
    if (!cache) return unexpected(cache.error());
    const auto* ready = api::find_condition(cache->status.conditions, api::kReadyCondition);
    if (ready != nullptr && ready->status == "False") {
      plan_.notes.push_back("CompileCache " + plan_.cache_name + " is not ready: " + ready->reason +
                            ": " + ready->message);
    }
    return {};
  }

  [[nodiscard]] Result<json> storage_json() const {
    if (input_.storage.empty() && input_.registry != true) {
      return unexpected(
          refuse(std::string("say where its archives are kept, with --storage "
                             "claim=NAME or --storage registry") +
                 (input_.registry ? "; no registry is installed with the operator" : ""))
              .error());
    }
    const auto claim = claim_of_storage(input_.storage);
    if (!claim) return unexpected(claim.error());
    if (!claim->empty()) return claim_json(*claim);
    if (input_.registry == false) {
      return unexpected(refuse("no registry is installed with the operator; install it "
                               "(docs/how-to/storage/own-registry.md) or use --storage claim=NAME")
                            .error());
    }
    return json::object();
  }

  [[nodiscard]] Result<json> claim_json(const std::string& claim) const {
    const json& modes = at(input_.claim, "/spec/accessModes");
    const bool shared =
        modes.is_null() || std::find(modes.begin(), modes.end(), "ReadWriteMany") != modes.end();
    if (!shared) {
      return unexpected(refuse("claim " + claim +
                               " is not ReadWriteMany, so pods of several nodes cannot mount it; "
                               "name another claim, or use --storage registry")
                            .error());
    }
    return json{{"claimName", claim}};
  }

  // With frameworks of its own where the CompileCache is for other engines.
  void plan_patch() {
    json annotations = json::object();
    if (annotation_of(workload_.pod_template, api::kCacheAnnotation).empty()) {
      annotations[api::kCacheAnnotation] = plan_.cache_name;
    }
    if (annotations.empty()) return;
    if (lacks_frameworks()) {
      const std::string all = join(detected_.frameworks, ",");
      annotations[api::kFrameworksAnnotation] = all;
      plan_.notes.push_back("CompileCache " + plan_.cache_name + " is for other frameworks; " +
                            detected_.why + ", so its pods get " + all);
    }
    plan_.patch = json_patch(workload_, annotations);
    plan_.merge = {{"apiVersion", plan_.api_version},
                   {"kind", plan_.kind},
                   {"metadata", {{"name", plan_.name}, {"namespace", plan_.ns}}}};
    plan_.merge[json::json_pointer(workload_.template_path)]["metadata"]["annotations"] =
        annotations;
  }

  // Only what was recognised counts: its first framework is the engine's.
  [[nodiscard]] bool lacks_frameworks() const {
    if (input_.existing.is_null() || detected_.frameworks.front() == "torch") return false;
    if (!annotation_of(workload_.pod_template, api::kFrameworksAnnotation).empty()) return false;
    const json& has = at(input_.existing, "/spec/frameworks");
    return std::find(has.begin(), has.end(), detected_.frameworks.front()) == has.end();
  }

  // As the webhook will judge a pod once the CompileCache is ready.
  Status check_injection() {
    json object = input_.object;
    if (!plan_.patch.is_null()) object = object.patch(plan_.patch);
    json cache = plan_.cache.is_null() ? input_.existing : plan_.cache;
    cache.erase("status");
    ManifestFile file{what(), {Manifest::parse(object.dump())}};
    for (const json& bound : input_.bounds) file.documents.push_back(Manifest::parse(bound.dump()));
    const auto injected =
        inject_manifests({.files = {file},
                          .caches = {{"the CompileCache", {Manifest::parse(cache.dump())}}},
                          .ns = workload_.ns,
                          .settings = with_addresses(input_.settings)});
    if (!injected) return unexpected(injected.error());
    for (const TemplateReport& report : injected->reports) {
      if (is_of_settings(report.report)) {
        plan_.notes.push_back(report.report.message +
                              " (by this release's settings, if you may not read the operator's)");
      } else if (report.report.outcome == webhook::InjectionOutcome::kSkipped) {
        return refuse("its pods would not be injected: " +
                      std::string(api::text_of(report.report.reason).word) + ": " +
                      report.report.message);
      }
      plan_.notes.insert(plan_.notes.end(), report.report.warnings.begin(),
                         report.report.warnings.end());
    }
    return {};
  }

  const EnableInput& input_;
  const WorkloadTemplate& workload_;
  const DetectedFrameworks detected_;
  EnablePlan plan_;
};

Manifest ordered(const json& object) {
  Manifest manifest;
  for (const char* first : {"apiVersion", "kind", "metadata"}) {
    manifest[first] = Manifest::parse(object.at(first).dump());
  }
  manifest.update(Manifest::parse(object.dump()));
  return manifest;
}

}  // namespace

std::string cache_name_for(const WorkloadTemplate& workload, const std::string& asked) {
  if (!asked.empty()) return asked;
  const std::string written = annotation_of(workload.pod_template, api::kCacheAnnotation);
  return written.empty() ? workload.name : written;
}

Result<std::string> claim_of_storage(const std::string& storage) {
  if (storage.empty() || storage == kRegistry) return std::string();
  if (storage.starts_with(kClaim) && storage.size() > std::size(kClaim) - 1) {
    return storage.substr(std::size(kClaim) - 1);
  }
  return fail(ErrorCode::kInvalid,
              "--storage \"" + storage + "\" is neither registry nor claim=NAME");
}

Result<EnablePlan> plan_enable(const EnableInput& input) { return EnablePlanner(input).plan(); }

std::string yaml_of(const EnablePlan& plan) {
  std::string text;
  if (!plan.cache.is_null()) {
    text += "# CompileCache, to be created\n" + write_manifest(ordered(plan.cache));
  }
  if (!plan.merge.is_null()) {
    text += std::string(text.empty() ? "" : "---\n") + "# Patch of " + plan.kind + " " + plan.ns +
            "/" + plan.name + "\n" + write_manifest(ordered(plan.merge));
  }
  return text;
}

std::string why_no_workload(const std::string& typed) {
  const std::string kind = typed.substr(0, typed.find('/'));
  if (kind == "pod" || kind == "pods" || kind == "po") {
    return "a pod is injected when it is created and never later; enable its workload "
           "(deployment/NAME), or write the annotation " +
           std::string(api::kCacheAnnotation) + " into the pod's manifest and create it again";
  }
  const TemplatePlace* place = find_template_place_typed(kind);
  if (place == nullptr || place->kind == "Rollout") return "";
  return std::string(place->kind) +
         " is a kind that this command cannot patch; write the annotation " +
         api::kCacheAnnotation + " into " + std::string(place->annotations) +
         " (docs/how-to/controllers/index.md)";
}

}  // namespace compilecache::cli
