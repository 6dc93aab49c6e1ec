#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/text/manifest_files.hpp"
#include "webhook/injection.hpp"

// The injection for manifests instead of pods: for review, for GitOps and for clusters without
// webhooks. Pure.
//
//   auto injected = inject_manifests({.files = files, .ns = "default", .settings = settings});
//   for (const auto& document : injected->documents) ...       // all of them, in their order
//   for (const TemplateReport& report : injected->reports) ...  // one for each annotated template
//
// A pod template is any object with the annotation compilecache.dev/cache in its metadata and
// containers in its spec, however deep it is nested. Pod, Deployment, CronJob, List, and the kinds
// of other operators have some. CompileCaches, LimitRanges and ResourceQuotas are found among the
// manifests. A CompileCache that no operator has judged yet (no status) is taken to be ready. If
// the annotation is on anything else, such as an InferenceService's predictor, nothing can be
// injected. A report says so, and where it belongs (template_places.hpp). The same goes for
// Knative's kinds, which would refuse what is injected.

namespace compilecache::cli {

struct ManifestInput {
  std::vector<ManifestFile> files;
  // CompileCaches that take precedence over those in `files`, and are not printed.
  std::vector<ManifestFile> caches;
  std::string ns;  // of manifests that name none
  webhook::InjectionSettings settings;
};

struct TemplateReport {
  std::string file;
  std::string object;  // "Deployment ml/web"
  std::string path;    // of the template in its document, "/spec/template"; "" for a Pod; of
                       // annotations that are no template's, "/spec/predictor/annotations"
  webhook::InjectionReport report;
};

struct InjectedManifests {
  std::vector<Manifest> documents;
  std::vector<TemplateReport> reports;

  // Whether every annotated template is now as its annotations ask: none was skipped but those with
  // mode Disabled.
  [[nodiscard]] bool complete() const;
};

// kInvalid when a CompileCache, LimitRange or ResourceQuota cannot be used; names file and object.
Result<InjectedManifests> inject_manifests(const ManifestInput& input);

// The report for people: a line "web.yaml: Deployment ml/web: skipped: cache_not_found: there is no
// …", and one for each warning.
std::string text_of(const TemplateReport& report);

}  // namespace compilecache::cli
