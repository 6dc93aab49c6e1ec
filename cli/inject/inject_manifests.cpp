#include "cli/inject/inject_manifests.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/names.hpp"
#include "cli/inject/template_places.hpp"
#include "webhook/patch.hpp"
#include "webhook/read_json.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using webhook::InjectionOutcome;

// What stands for the ReplicaSet that a Deployment's pods will have.
constexpr char kTemplateHash[] = "template";
constexpr char kTemplateHashLabel[] = "pod-template-hash";

// The same value with the other order of keys.
json plain(const Manifest& manifest) { return json::parse(manifest.dump()); }

std::string text_at(const Manifest& object, const char* section, const char* name) {
  const auto found = object.find(section);
  if (found == object.end() || !found->is_object()) return {};
  const auto value = found->find(name);
  return value != found->end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::string text_at(const Manifest& object, const char* name) {
  const auto value = object.find(name);
  return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

bool is_annotated_template(const Manifest& value) {
  if (!value.is_object()) return false;
  const auto metadata = value.find("metadata");
  const auto spec = value.find("spec");
  return metadata != value.end() && metadata->is_object() &&
         !text_at(*metadata, "annotations", api::kCacheAnnotation).empty() && spec != value.end() &&
         spec->is_object() && spec->contains("containers");
}

// Every object of a document: itself, or what a List holds.
template <typename Visit>
void for_each_object(Manifest& document, const std::string& path, const Visit& visit) {
  if (!document.is_object()) return;
  const auto items = document.find("items");
  if (text_at(document, "kind").ends_with("List") && items != document.end() && items->is_array()) {
    for (size_t i = 0; i < items->size(); ++i) {
      for_each_object((*items)[i], path + "/items/" + std::to_string(i), visit);
    }
    return;
  }
  visit(document, path);
}

// Calls `visit` for every annotated pod template, and `stray` with the path of the annotations of
// whatever else has our annotation.
template <typename Visit, typename Stray>
void for_each_template(Manifest& value, const std::string& path, const Visit& visit,
                       const Stray& stray) {
  if (is_annotated_template(value)) {
    visit(value, path);
  } else if (value.is_object()) {
    const bool off =
        text_at(value, "annotations", api::kModeAnnotation) == api::to_string(api::Mode::kDisabled);
    if (!off && !text_at(value, "annotations", api::kCacheAnnotation).empty()) {
      stray(path + "/annotations");
    }
    for (auto& [key, item] : value.items()) {
      for_each_template(item, path + "/" + key, visit, stray);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) {
      for_each_template(value[i], path + "/" + std::to_string(i), visit, stray);
    }
  }
}

webhook::InjectionReport no_template(std::string message) {
  return {InjectionOutcome::kSkipped, api::InjectionReason::kNoPodTemplate, std::move(message), {}};
}

constexpr char kWebhookDoes[] = "the operator's webhook injects its pods";

// For a known kind.
webhook::InjectionReport stray_report(const std::string& kind, const TemplatePlace& place,
                                      const std::string& pointer) {
  if (reaches_pods(place, pointer)) {
    return no_template("a " + kind +
                       " holds no whole pod template, so its manifest was left as it is; the "
                       "annotation reaches its pods, and the operator's webhook injects those");
  }
  return no_template("the annotation reaches no pod of a " + kind + " there; it belongs on " +
                     std::string(place.annotations) +
                     (place.whole ? "" : std::string(", and ") + kWebhookDoes));
}

// Why the annotation there does nothing for a manifest, and where it belongs.
webhook::InjectionReport stray_report(const std::string& kind, bool of_object) {
  if (of_object) {
    return no_template("the annotation is on the " + kind +
                       " itself; pods get it from the annotations of their template, "
                       "spec.template.metadata.annotations in most kinds");
  }
  return no_template(
      "the annotation is on no pod template, so this manifest cannot be injected; where the "
      "controller hands it on to its pods, the operator's webhook injects those");
}

// Knative takes init containers, emptyDirs and claims only where feature flags allow them.
bool is_of_knative(const Manifest& object) {
  return text_at(object, "apiVersion").starts_with("serving.knative.dev/");
}

// The owner of the template's future pods, which is part of some archives' keys.
Manifest owner_of(const std::string& kind, const std::string& name) {
  if (kind == "Deployment") {
    return {{"kind", "ReplicaSet"}, {"name", name + "-" + kTemplateHash}, {"controller", true}};
  }
  return {{"kind", kind}, {"name", name}, {"controller", true}};
}

// The template as a pod of its owner.
Manifest pod_of(Manifest pod, const std::string& kind, const std::string& name) {
  pod["metadata"]["ownerReferences"] = Manifest::array({owner_of(kind, name)});
  // The injection refuses anything that is no object.
  const auto labels = pod["metadata"].find("labels");
  const bool odd = labels != pod["metadata"].end() && !labels->is_object() && !labels->is_null();
  if (kind == "Deployment" && !odd) pod["metadata"]["labels"][kTemplateHashLabel] = kTemplateHash;
  return pod;
}

void restore(Manifest& metadata, const Manifest& original, const char* name) {
  if (original.contains(name)) {
    metadata[name] = original[name];
  } else {
    metadata.erase(name);
  }
}

// The reverse of pod_of(): what that added is taken off, what the injection added stays.
Manifest template_of(Manifest pod, const Manifest& pod_template) {
  Manifest& metadata = pod["metadata"];
  const Manifest& original = pod_template.at("metadata");
  restore(metadata, original, "ownerReferences");
  if (metadata.contains("labels")) {
    restore(metadata["labels"], original.value("labels", Manifest::object()), kTemplateHashLabel);
    if (metadata["labels"].empty()) metadata.erase("labels");
  }
  return pod;
}

class Injector {
 public:
  explicit Injector(const ManifestInput& input) : input_(input) {}

  Status learn() {
    for (const auto* files : {&input_.files, &input_.caches}) {
      for (const ManifestFile& file : *files) {
        for (Manifest document : file.documents) {
          Status status;
          for_each_object(document, "", [&](Manifest& object, const std::string&) {
            if (status) status = learn(object);
          });
          if (!status) return unexpected(status.error().with(file.name));
        }
      }
    }
    return {};
  }

  InjectedManifests run() {
    InjectedManifests injected;
    for (const ManifestFile& file : input_.files) {
      for (Manifest document : file.documents) {
        for_each_object(document, "", [&](Manifest& object, const std::string& path) {
          inject_object(file.name, object, path, injected.reports);
        });
        injected.documents.push_back(std::move(document));
      }
    }
    return injected;
  }

 private:
  std::string namespace_of(const Manifest& object) const {
    const std::string named = text_at(object, "metadata", "namespace");
    return named.empty() ? input_.ns : named;
  }

  // CompileCaches of `caches` come last, and so replace those of `files`.
  Status learn(const Manifest& object) {
    const std::string kind = text_at(object, "kind");
    const std::string ns = namespace_of(object);
    webhook::NamespaceFacts& facts = facts_[ns];
    if (kind == "CompileCache" && text_at(object, "apiVersion") == api::kApiVersion) {
      auto cache = api::parse_compile_cache(plain(object));
      if (!cache) return unexpected(cache.error());
      if (cache->status.conditions.empty()) {
        cache->status.conditions.push_back({.type = api::kStorageReadyCondition, .status = "True"});
      }
      const std::string name = cache->metadata.name;
      cache->metadata.ns = ns;  // registries have it in the repository's name
      caches_.insert_or_assign(ns + "/" + name, std::move(*cache));
    } else if (kind == "LimitRange") {
      const auto rules = webhook::parse_limit_range(plain(object));
      if (!rules) return unexpected(rules.error());
      facts.limits.insert(facts.limits.end(), rules->begin(), rules->end());
    } else if (kind == "ResourceQuota") {
      auto quota = webhook::parse_resource_quota(plain(object));
      if (!quota) return unexpected(quota.error());
      facts.quotas.push_back(std::move(*quota));
    }
    return {};
  }

  void inject_object(const std::string& file, Manifest& object, const std::string& path,
                     std::vector<TemplateReport>& reports) {
    const std::string ns = namespace_of(object);
    const std::string kind = text_at(object, "kind");
    const TemplatePlace* place = find_template_place(text_at(object, "apiVersion"), kind);
    const std::string name = text_at(object, "metadata", "name");
    const std::string what = kind + " " + ns + "/" + name;
    const bool knative = is_of_knative(object);
    std::vector<std::string> strays;
    const size_t before = reports.size();
    const auto visit = [&](Manifest& found, const std::string& at) {
      reports.push_back({file, what, at, {}});
      reports.back().report =
          knative ? no_template(
                        "Knative refuses manifests with init containers, emptyDirs and "
                        "claims; leave its pods to the operator's webhook")
          : place != nullptr && !place->whole
              ? stray_report(kind, *place, at.substr(path.size()) + "/metadata/annotations")
              : inject_template(found, &found != &object, kind, name, ns);
    };
    for_each_template(object, path, visit, [&](const std::string& at) { strays.push_back(at); });
    const bool has_template = reports.size() > before;
    for (const std::string& at : strays) {
      const bool of_object = at == path + "/metadata/annotations";
      // Beside an annotated template it is a label for people.
      if (of_object && has_template) continue;
      reports.push_back({file, what, at,
                         place != nullptr ? stray_report(kind, *place, at.substr(path.size()))
                                          : stray_report(kind, of_object)});
    }
  }

  webhook::InjectionReport inject_template(Manifest& found, bool owned, const std::string& kind,
                                           const std::string& name, const std::string& ns) {
    const Manifest as_pod = owned ? pod_of(found, kind, name) : found;
    const auto pod = webhook::read_json(as_pod.dump());
    if (!pod) {
      return {InjectionOutcome::kSkipped,
              api::InjectionReason::kRequestInvalid,
              pod.error().message,
              {}};
    }
    const auto cache = caches_.find(ns + "/" + webhook::wanted_cache(*pod).value_or(""));
    auto result = webhook::inject({.pod = *pod,
                                   .ns = ns,
                                   .cache = cache == caches_.end() ? nullptr : &cache->second,
                                   .facts = facts_[ns],
                                   .settings = input_.settings});
    if (result.patch.empty()) return result.report;
    // A patch leaves the order of what the user wrote as it is.
    Manifest patched = as_pod.patch(Manifest::parse(webhook::patch_text(result.patch)));
    found = owned ? template_of(std::move(patched), found) : std::move(patched);
    return result.report;
  }

  const ManifestInput& input_;
  std::map<std::string, api::CompileCache> caches_;  // by "namespace/name"
  std::map<std::string, webhook::NamespaceFacts> facts_;
};

}  // namespace

bool InjectedManifests::complete() const {
  return std::all_of(reports.begin(), reports.end(), [](const TemplateReport& report) {
    return report.report.outcome != InjectionOutcome::kSkipped ||
           report.report.reason == api::InjectionReason::kDisabled;
  });
}

Result<InjectedManifests> inject_manifests(const ManifestInput& input) {
  Injector injector(input);
  const Status learnt = injector.learn();
  if (!learnt) return unexpected(learnt.error());
  return injector.run();
}

std::string text_of(const TemplateReport& report) {
  const std::string start =
      report.file + ": " + report.object + (report.path.empty() ? "" : " " + report.path) + ": ";
  const webhook::InjectionReport& what = report.report;
  const std::string_view outcome = to_string(what.outcome);
  const std::string_view reason = api::text_of(what.reason).word;
  std::string text = start + std::string(outcome) + ": ";
  if (reason != outcome) text += std::string(reason) + ": ";
  text += what.message + "\n";
  for (const std::string& warning : what.warnings) {
    // Why it was skipped has just been said.
    if (warning.find(what.message) == std::string::npos) {
      text += start + "warning: " + warning + "\n";
    }
  }
  return text;
}

}  // namespace compilecache::cli
