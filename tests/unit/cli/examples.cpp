// The examples in the headers of cli/, word for word (tests/support/header_examples.py). They are
// compiled and never run.

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/archives/archive_signer.hpp"
#include "cli/archives/copy_wait.hpp"
#include "cli/archives/tool_run.hpp"
#include "cli/cluster/cluster.hpp"
#include "cli/cluster/kubectl.hpp"
#include "cli/cluster/operator_settings.hpp"
#include "cli/cluster/undo.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/cluster/workload_template.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/findings.hpp"
#include "cli/enable/enable_plan.hpp"
#include "cli/explain/engine_lines.hpp"
#include "cli/explain/pod_reader.hpp"
#include "cli/explain/pod_story.hpp"
#include "cli/explain/start_phases.hpp"
#include "cli/explain/workload_story.hpp"
#include "cli/inject/inject_manifests.hpp"
#include "cli/inject/template_places.hpp"
#include "cli/prewarm/gpu_kinds.hpp"
#include "cli/prewarm/prewarm_pod.hpp"
#include "cli/prewarm/prewarm_watch.hpp"
#include "cli/report/browser.hpp"
#include "cli/report/gpu_price.hpp"
#include "cli/report/hit_history.hpp"
#include "cli/report/markup.hpp"
#include "cli/report/prometheus.hpp"
#include "cli/report/report_html.hpp"
#include "cli/report/report_model.hpp"
#include "cli/status/cache_overview.hpp"
#include "cli/status/overview_reading.hpp"
#include "cli/text/complaint.hpp"
#include "cli/text/manifest_yaml.hpp"
#include "cli/text/page.hpp"
#include "operator/settings/settings.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::cli::examples {

inline size_t inject(const std::vector<ManifestFile>& files,
                     const webhook::InjectionSettings& settings) {
  size_t count = 0;
  auto injected = inject_manifests({.files = files, .ns = "default", .settings = settings});
  for (const auto& document : injected->documents) count += document.size();
  for (const TemplateReport& report : injected->reports) count += report.file.size();
  return count;
}

inline Status yaml(const std::string& text) {
  auto documents = read_manifests(text, "web.yaml");
  if (!documents) return unexpected(documents.error());
  for (const auto& document : *documents) std::cout << "---\n" << write_manifest(document);
  return {};
}

inline void story(const PodFacts& facts) {
  PodStory story = tell_story(facts);
  std::cout << text_of(story);
  std::cout << json_of(story).dump(2);
}

inline void overview(const api::CompileCache& cache,
                     const std::vector<api::CompileCacheArchive>& archives, WallTime now) {
  CacheOverview overview = overview_of(cache, archives);
  std::cout << text_of(overview, now);
  std::cout << json_of(overview).dump(2);
}

inline void tool(const Cluster& cluster, const ClusterOptions& options,
                 const api::VolumeRef& volume, const std::string& path, const std::string& file) {
  const auto tool = WaitingTool::start(cluster, {.volume = volume}, std::cerr);
  run_kubectl(options, tool->exec({"compilecache-agent", "inspect", path}), {.output = file});
}

inline void exec(const ClusterOptions& options, const std::string& pod, const std::string& ns) {
  run_kubectl(options, {"exec", "-i", pod, "-n", ns, "--", "cat"}, {.input = "a", .output = "b"});
}

inline void undo(const kube::Client& client, const kube::Resource& jobs, const std::string& ns,
                 const std::string& name) {
  undo_at_signals();
  const Undo undo([&] { client.remove(jobs, ns, name); });
}

inline Status archives() {
  const auto cluster = connect({.ns = "ml"});
  if (!cluster) return unexpected(cluster.error());
  auto archives = read_archives(*cluster, "llama");
  return archives ? Status() : unexpected(archives.error());
}

inline void kinds(const api::KeyBasis& basis, nlohmann::json& pod_spec,
                  const std::vector<nlohmann::json>& nodes, const api::NodeLabels& labels,
                  const std::string& cache) {
  for (const GpuKind& kind : gpu_kinds(basis, pod_spec, nodes, labels)) {
    const std::string archive = api::archive_name(cache, kind.key);
    restrict_to(kind, pod_spec);
  }
}

inline void prewarm(const WorkloadTemplate& workload, const std::string& name,
                    std::chrono::seconds deadline, const std::vector<PodSelector>& selectors) {
  using nlohmann::json;
  json pod = prewarm_pod(workload, name, deadline);
  const Detached detached = detach(pod, selectors);
}

inline void watch(const PrewarmSight& sight, Monotonic now) {
  using namespace std::chrono_literals;
  PrewarmWatch watch({.unscheduled = 5min, .stuck = 2min, .all = 30min}, now);
  const PrewarmNews news = watch.look(sight, now);
}

inline void place() { const TemplatePlace* place = find_template_place("ray.io/v1", "RayCluster"); }

inline void workload(const nlohmann::json& object) {
  const auto named = workload_named("deploy/web");
  auto made_of = workload_template(object, "default");
}

inline Status read(const Cluster& cluster) {
  const auto overviews = read_overviews(cluster.client, "ml", "");
  if (!overviews) return unexpected(overviews.error());
  return {};
}

inline std::string markup(const std::string& name, const std::string& message) {
  Markup page;
  page.html("<p title=\"").text(name).html("\">").text(message).html("</p>");
  std::string text = page.take();
  return text;
}

inline void history(const std::string& body, WallTime now) {
  const std::string target = history_target("ml", now);
  auto points = read_history(200, body, now);
}

inline void prometheus() {
  auto answer = ask_prometheus("http://localhost:9090", "/api/v1/query?query=up");
  if (answer) std::cout << answer->status << answer->body;
}

inline void browser() {
  const auto opened = open_in_browser("report.html");
  if (!opened) std::cerr << opened.error().message;
}

inline void price(double gpu_hours) {
  auto price = parse_price("2.50 EUR");
  if (price) std::cout << money_text(price->amount * gpu_hours, price->currency);  // "502 EUR"
}

inline void report(const std::vector<CacheOverview>& overviews,
                   const std::vector<HistoryPoint>& points, WallTime now) {
  Report report = report_of(overviews, "ml", now);
  report.history.points = points;
  std::string page = html_of(report);
  std::cout << json_of(report).dump(2);
}

inline Status reader(const kube::Client& client) {
  PodReader reader(client, "ml");
  auto facts = reader.read("web-1");
  if (!facts) return unexpected(facts.error());
  return {};
}

inline void start(const nlohmann::json& pod, const std::vector<nlohmann::json>& events,
                  const std::string& log) {
  const StartTimes times = start_times({.pod = pod, .events = events, .log = log});
  for (const StartPhase& phase : times.phases)
    std::cout << phase.name << " " << phase.milliseconds << "\n";
  for (const std::string& what : times.untold) std::cout << what << "\n";
}

inline void engine() {
  for (const EngineTime& time : engine_times({"INFO Model loading took 1.2 GiB and 0.9 seconds"}))
    std::cout << time.engine << " " << time.phase << " " << time.milliseconds << "\n";
}

inline void signer(const std::unique_ptr<store::Store>& store, const std::string& manifest_digest) {
  const auto signer = ArchiveSigner::of_file("release.key");
  signer->sign(*store, manifest_digest);
}

inline void alike() {
  const WorkloadStory story = tell_workload({.ns = "ml", .workload = "Deployment/web"});
  std::cout << text_of(story);
  std::cout << json_of(story).dump(2);
}

inline std::string page() {
  Page page;
  page.line("pod", "ml/web-1 on node gpu-7");
  page.table({{"NAME", "GPU"}, {"llama-1", "H100"}});
  std::string text = page.take();
  return text;
}

inline void borrowed(const Cluster& cluster, const api::CompileCache& inbox,
                     const nlohmann::json& copy_from) {
  BorrowedCopyFrom borrowed(cluster, "llama", inbox.metadata.name);
  const Undo undo([&] { borrowed.give_back(); });
  auto asked = borrowed.ask(copy_from);
  if (!asked) return;
  borrowed.give_back();
}

inline void operators_settings(const kube::Client& client, const std::string& ns) {
  const auto settings = read_settings(client, ns);
}

inline std::string scope(const nlohmann::json& configurations, const nlohmann::json& ns_labels,
                         const nlohmann::json& pod_labels) {
  using nlohmann::json;
  const json webhook = webhook_among(configurations);
  std::string why = why_not_sent(webhook, ns_labels, pod_labels);
  return why;
}

inline void checked(const ClusterFacts& facts) {
  for (const Finding& finding : check_nodes(facts)) std::cout << finding.text;
  Findings findings{{Level::kFail, "webhook", "no endpoint is ready", "kubectl get pods -n …"}};
  std::cout << text_of(findings);
}

inline int enabled(const EnableInput& input, std::ostream& errors) {
  const auto plan = plan_enable(input);
  if (!plan) return complain(plan.error(), errors);
  std::cout << yaml_of(*plan);
  return 0;
}

}  // namespace compilecache::cli::examples

#pragma GCC diagnostic pop
