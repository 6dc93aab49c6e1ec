#include "tests/bulk/bulk.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "api/names.hpp"
#include "cli/inject/inject_manifests.hpp"
#include "tests/support/parallel.hpp"

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using cli::InjectedManifests;
using cli::Manifest;
using nlohmann::json;

constexpr char kCache[] = "bulk";
constexpr char kNamespace[] = "default";

Manifest compile_cache() {
  return Manifest{{"apiVersion", api::kApiVersion},
                  {"kind", "CompileCache"},
                  {"metadata", {{"name", kCache}, {"namespace", kNamespace}}},
                  {"spec", {{"storage", {{"claimName", "caches"}}}}}};
}

bool is_template(const Manifest& value) {
  if (!value.is_object() || !value.contains("spec") || !value["spec"].is_object()) return false;
  const auto containers = value["spec"].find("containers");
  return containers != value["spec"].end() && containers->is_array() && !containers->empty() &&
         std::all_of(containers->begin(), containers->end(),
                     [](const Manifest& one) { return one.is_object() && one.contains("name"); });
}

// Every pod template below gets the annotation.
void annotate(Manifest& value) {
  if (is_template(value)) {
    Manifest& metadata = value["metadata"];
    if (!metadata.is_object()) metadata = Manifest::object();
    if (!metadata["annotations"].is_object()) metadata["annotations"] = Manifest::object();
    metadata["annotations"][api::kCacheAnnotation] = kCache;
  } else if (value.is_structured()) {
    for (Manifest& item : value) annotate(item);
  }
}

void forget_namespaces(Manifest& value) {
  if (!value.is_structured()) return;
  if (value.is_object() && value.contains("metadata") && value["metadata"].is_object()) {
    value["metadata"].erase("namespace");
  }
  for (Manifest& item : value) forget_namespaces(item);
}

json pod_at(const Manifest& document, const std::string& path) {
  const json all = json::parse(document.dump());
  const json& found = all.at(json::json_pointer(path));
  json pod = {{"spec", found.at("spec")}, {"metadata", json::object()}};
  for (const char* member : {"labels", "annotations"}) {
    const json& metadata = found.at("metadata");
    if (metadata.contains(member)) pod["metadata"][member] = metadata[member];
  }
  return pod;
}

class BulkRun {
 public:
  BulkRun(const webhook::InjectionSettings& settings, const DryRun& dry_run, std::ostream& lines)
      : settings_(settings), dry_run_(dry_run), lines_(lines) {}

  void file(const fs::path& path) {
    ++result_.files;
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    auto documents = cli::read_manifests(text.str(), path);
    if (!documents) {
      ++result_.unreadable;
      lines_ << path.string() << ": unreadable\n";
      return;
    }
    for (Manifest& document : *documents) this->document(path, document);
  }

  BulkResult result() {
    in_parallel(found_.size(), [&](size_t i) { ask(found_[i]); });
    for (const Found& found : found_) count(found);
    return result_;
  }

 private:
  struct Found {
    cli::TemplateReport report;
    json plain, injected;
    bool twice;
    Verdict before, after;
  };

  Result<InjectedManifests> inject(const std::string& file, const Manifest& document) const {
    cli::ManifestInput input;
    input.files = {{file, {document}}};
    input.caches = {{"bulk", {compile_cache()}}};
    input.ns = kNamespace;
    input.settings = settings_;
    return cli::inject_manifests(input);
  }

  void document(const std::string& file, Manifest& document) {
    forget_namespaces(document);
    annotate(document);
    const auto injected = inject(file, document);
    if (!injected) {
      ++result_.unreadable;
      lines_ << file << ": unreadable: " << injected.error().message << "\n";
      return;
    }
    const Manifest& after = injected->documents.at(0);
    const auto again = inject(file, after);
    const bool twice = !again || again->documents.at(0) != after;
    if (twice) ++result_.injected_twice;
    for (const cli::TemplateReport& report : injected->reports) {
      if (report.report.reason == api::InjectionReason::kNoPodTemplate) {
        left_alone(report, document, after);
        continue;
      }
      found_.push_back(
          {report, pod_at(document, report.path), pod_at(after, report.path), twice, {}, {}});
    }
  }

  // There is no pod to ask the API server for: the object is one of another operator's.
  void left_alone(const cli::TemplateReport& report, const Manifest& before,
                  const Manifest& after) {
    const std::string reason(api::text_of(report.report.reason).word);
    ++result_.reasons[reason];
    const Manifest::json_pointer place(report.path);
    const bool unchanged = before.at(place) == after.at(place);
    if (!unchanged) ++result_.worse;
    lines_ << report.file << ": " << report.object << " " << report.path << ": " << reason << ": "
           << (unchanged ? "left as it was" : "NOT left as it was") << "\n";
  }

  void ask(Found& found) const {
    found.before = dry_run_.strictest(found.plain);
    found.after =
        found.plain == found.injected ? found.before : dry_run_.again(found.injected, found.before);
  }

  void count(const Found& found) {
    const std::string reason(api::text_of(found.report.report.reason).word);
    ++result_.templates;
    ++result_.reasons[reason];
    if (found.before.accepted()) ++result_.accepted_before;
    if (found.after.accepted()) ++result_.accepted_after;
    const std::string worse = worsened(found.before, found.after);
    if (!worse.empty()) ++result_.worse;
    lines_ << found.report.file << ": " << found.report.object << " " << found.report.path << ": "
           << reason << ": " << text(found.before) << " before, " << text(found.after)
           << " after, second injection " << (found.twice ? "NOT EMPTY" : "empty")
           << (worse.empty() ? "" : ", WORSE: " + worse) << "\n";
  }

  static std::string text(const Verdict& verdict) {
    return verdict.accepted() ? verdict.level + " " + verdict.qos_class() : "refused";
  }

  const webhook::InjectionSettings& settings_;
  const DryRun& dry_run_;
  std::ostream& lines_;
  std::vector<Found> found_;
  BulkResult result_;
};

bool is_manifest(const fs::path& path) {
  const std::string extension = path.extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

}  // namespace

Result<BulkResult> run_bulk(const std::vector<std::string>& folders,
                            const webhook::InjectionSettings& settings, const DryRun& dry_run,
                            std::ostream& lines) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (is_manifest(entry->path()) && entry->is_regular_file()) paths.push_back(entry->path());
    }
    if (error) return fail(ErrorCode::kIo, "reading " + folder + ": " + error.message());
  }
  std::sort(paths.begin(), paths.end());
  BulkRun bulk(settings, dry_run, lines);
  for (const fs::path& path : paths) bulk.file(path);
  return bulk.result();
}

}  // namespace compilecache::testing
