#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <string_view>
#include <utility>

#include "base/version.hpp"
#include "cli/report/prometheus.hpp"

namespace compilecache::cli {
namespace {

constexpr char kDescription[] =
    R"(What people ask of compile caches beside what kubectl itself shows.

kubectl runs it as `kubectl compilecache ...` where the program kubectl-compilecache is on the PATH.)";

constexpr char kInjectFooter[] = R"(
Prints all manifests as YAML, every pod template with the annotation compilecache.dev/cache injected as the
webhook would, and on standard error a report for each: outcome, reason (docs/reasons.md), sentence. No
cluster is asked: CompileCaches, LimitRanges and ResourceQuotas are those among the manifests; a CompileCache
without a status is taken to be ready.
  kubectl compilecache inject -f deploy/ --cache cache.yaml --settings config/settings.yaml > injected.yaml

Exit status: 0 when every annotated template was injected, 1 when one was left as it is, 2 when something
could not be read or the command line is wrong; then nothing is printed.)";

constexpr char kExplainFooter[] = R"(
One pod's story: injected or why not, its key, which archive, where each second of its start went, what the
archive was worth, what was compiled anew and why, and what to change. Of a workload: what its pods have in common
(one key or several, how many warm, partial, cold or not injected and why, medians of the newest pods' steps), and what to do
about the commonest fault. All of it is in pods, in status.recent of their CompileCache, in its archives, in Events and in
the log of a known engine; needs the right to read those, and tells what it may not read. docs/still-slow.md has more.
  kubectl compilecache explain web-6d9f7c5b8-x2x7k -n ml
  kubectl compilecache explain deployment/web -n ml

Exit status: 0 when the story was told, 1 when the pod or the workload cannot be read, 2 when the command line is wrong.)";

constexpr char kStatusFooter[] = R"(
How CompileCaches do: archives by GPU product, what pods found and what it was worth, what is wrong and what to
do, why the last pods started cold. All of it is in the CompileCaches and their archives; needs the right to list those.
  kubectl compilecache status llama -n ml

Exit status: 0 when it was told, 1 when they cannot be read, 2 when the command line is wrong.)";

constexpr char kPrewarmFooter[] = R"(
Before a roll-out: one pod of the new template on each kind of GPU, until its archive is committed; then it goes.
No Service, controller or budget counts the pod: the labels by which they select are taken away. Where the
archive is there already it says so and makes nothing. Needs the right to make and delete pods, and to list nodes.
  kubectl compilecache prewarm deployment/llama --image registry.example/llama:2 -n ml
  kubectl compilecache prewarm -f deploy/ -n ml --gpu NVIDIA-H100-80GB-HBM3

Exit status: 0 when all archives are there, 1 when one is not, 2 when something could not be read or the command
line is wrong, 128 and the signal's number when it was ended; its pods are taken away in every case.)";

constexpr char kReportFooter[] = R"(
One page to send on: compile time and GPU-hours saved, hit rate, archives by GPU and age, pods that stayed cold and
why. It needs no other file and no script. The hit rate over the last 14 days comes from Prometheus where one is
named, which is asked without credentials. Needs the right to list CompileCaches and CompileCacheArchives.
  kubectl compilecache report -A > report.html
  kubectl port-forward -n monitoring service/prometheus 9090 &
  kubectl compilecache report -A --prometheus http://localhost:9090 > report.html

Exit status: 0 when it was made, 1 when the CompileCaches cannot be read, 2 when the command line is wrong, 3 when
it was made but Prometheus could not be asked; the page then says so, too.)";

void describe_inject(CLI::App& inject, InjectOptions& how) {
  inject.footer(kInjectFooter);
  inject
      .add_option("-f,--filename", how.files,
                  "manifests, YAML or JSON: files, folders with all below them, - for standard "
                  "input")
      ->required();
  inject.add_option("--cache", how.caches,
                    "CompileCaches that are not among the manifests; they count first");
  inject.add_option("-n,--namespace", how.ns, "of manifests that name none")->capture_default_str();
  inject.add_option("--settings", how.settings, "YAML file, see config/settings.yaml")
      ->capture_default_str();
  inject.add_option(
      "--image", how.image,
      "of loader and saver; default: agentImage of the settings, else this release's");
  inject
      .add_option("--operator-namespace", how.operator_namespace,
                  "where the operator runs; its pods are never injected")
      ->capture_default_str();
  auto* address = inject.add_option(
      "--agent-address", how.agent_address,
      "IP of the operator's agent API; default: agent.address of the settings, else none: loader "
      "and saver then work by the index on their volume, and not at all with a registry");
  inject.add_option("--agent-ca", how.agent_ca_file, "PEM file, its CA")->needs(address);
  inject.add_option("--registry-address", how.registry_address,
                    "IP and port of the registry that is installed with the operator, for "
                    "CompileCaches with an empty spec.storage");
}

// How to reach the API server.
template <typename Options>
void describe_kubeconfig(CLI::App& command, Options& how) {
  command.add_option("--kubeconfig", how.kubeconfig,
                     "how to reach the API server; default: KUBECONFIG, the pod's service account, "
                     "~/.kube/config");
  command.add_option("--context", how.context, "of the kubeconfig; default: its current one");
}

void describe_explain(CLI::App& explain, ExplainOptions& how) {
  explain.footer(kExplainFooter);
  explain
      .add_option(
          "POD|WORKLOAD", how.what,
          "name of a pod, or deployment/NAME; also statefulset, daemonset, replicaset, job, "
          "rollout")
      ->required()
      ->expected(1, 2);
  explain.add_option("-n,--namespace", how.ns, "its own; default: the kubeconfig's");
  explain.add_option("-o,--output", how.output, "json or yaml; default: a text for people")
      ->check(CLI::IsMember({"json", "yaml"}));
  describe_kubeconfig(explain, how);
}

void describe_status(CLI::App& status, StatusOptions& how) {
  status.footer(kStatusFooter);
  auto* name =
      status.add_option("NAME", how.name, "of one CompileCache; default: all of the namespace");
  auto* ns = status.add_option("-n,--namespace", how.ns, "theirs; default: the kubeconfig's");
  status.add_flag("-A,--all-namespaces", how.all_namespaces, "all of the cluster")
      ->excludes(name)
      ->excludes(ns);
  status.add_option("-o,--output", how.output, "json or yaml; default: a text for people")
      ->check(CLI::IsMember({"json", "yaml"}));
  status.add_flag("-w,--watch", how.watch, "tell it again whenever it has changed, until Ctrl-C");
  describe_kubeconfig(status, how);
}

void describe_prewarm(CLI::App& prewarm, PrewarmOptions& how) {
  prewarm.footer(kPrewarmFooter);
  auto* workload = prewarm.add_option("WORKLOAD", how.workload,
                                      "deployment/NAME; also statefulset, daemonset, replicaset, "
                                      "job, cronjob, rollout");
  auto* files =
      prewarm.add_option("-f,--filename", how.files,
                         "manifests of workloads, in place of WORKLOAD: files, folders, -");
  files->excludes(workload);
  prewarm
      .add_option("--image", how.images,
                  "IMAGE of the container with the cache, or CONTAINER=IMAGE of another")
      ->allow_extra_args(false);
  auto* products = prewarm.add_option(
      "--gpu", how.products,
      "product as kubectl get cca shows it; default: those that the CompileCache has archives of, "
      "and all of the cluster where it has none");
  products->allow_extra_args(false);
  prewarm.add_flag("--all", how.all_products, "all kinds of GPU that the pod may run on")
      ->excludes(products);
  prewarm.add_flag("--force", how.force, "make the pod although there is an archive");
  prewarm.add_option("--timeout", how.timeout, "until the archive is there")->capture_default_str();
  prewarm.add_option("--schedule-timeout", how.schedule_timeout, "until a node takes the pod")
      ->capture_default_str();
  prewarm.add_option("-n,--namespace", how.ns,
                     "of the workload, and of manifests that name none; default: the kubeconfig's");
  prewarm.add_option(
      "--settings", how.settings,
      "YAML file with the labels of GPU products; default: the operator's, where you "
      "may read them, else this release's");
  prewarm.add_option("--operator-namespace", how.operator_namespace, "where those settings are")
      ->capture_default_str();
  prewarm.add_option("-o,--output", how.output, "json; default: a line for each kind of GPU")
      ->check(CLI::IsMember({"json"}));
  prewarm.callback([workload, files] {
    if (workload->count() + files->count() == 0) throw CLI::RequiredError("WORKLOAD or -f");
  });
  describe_kubeconfig(prewarm, how);
}

void describe_report(CLI::App& report, ReportOptions& how) {
  report.footer(kReportFooter);
  auto* ns = report.add_option("-n,--namespace", how.ns, "of which; default: the kubeconfig's");
  report.add_flag("-A,--all-namespaces", how.all_namespaces, "all of the cluster")->excludes(ns);
  report.add_option("-o,--output", how.output, "html, json or yaml")
      ->capture_default_str()
      ->check(CLI::IsMember({"html", "json", "yaml"}));
  report
      .add_option("--prometheus", how.prometheus,
                  "URL of the Prometheus that reads the operator's metrics, http:// or https://")
      ->check([](const std::string& url) {
        const auto checked = check_prometheus_url(url);
        return checked ? std::string() : checked.error().message;
      });
  describe_kubeconfig(report, how);
}

// kubectl finds it by this name, or by a link to it that is called kubectl-cc.
std::string called_as(int argc, const char* const* argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  return path.substr(path.rfind('/') + 1) == "kubectl-cc" ? "kubectl cc" : "kubectl compilecache";
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  CLI::App app(kDescription, called_as(argc, argv));
  app.set_version_flag("--version", version_line("kubectl-compilecache"));
  CLI::App* inject =
      app.add_subcommand("inject", "print manifests as the webhook would make them; no cluster");
  InjectOptions how;
  describe_inject(*inject, how);
  CLI::App* explain =
      app.add_subcommand("explain", "tell why a pod, or the pods of a workload, are (still) slow");
  ExplainOptions whom;
  describe_explain(*explain, whom);
  CLI::App* status =
      app.add_subcommand("status", "tell how CompileCaches do, what is wrong and what to do");
  StatusOptions which;
  describe_status(*status, which);
  CLI::App* prewarm =
      app.add_subcommand("prewarm", "before a roll-out, warm the archives that its pods will load");
  PrewarmOptions ahead;
  describe_prewarm(*prewarm, ahead);
  CLI::App* report =
      app.add_subcommand("report", "make a page of what was saved, to send to a manager");
  ReportOptions page;
  describe_report(*report, page);
  const ArchiveVerbs verbs(app);
  app.require_subcommand(1);
  CommandLine parsed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  if (inject->parsed()) parsed.inject = std::move(how);
  if (explain->parsed()) parsed.explain = std::move(whom);
  if (status->parsed()) parsed.status = std::move(which);
  if (prewarm->parsed()) parsed.prewarm = std::move(ahead);
  if (report->parsed()) parsed.report = std::move(page);
  parsed.verb = verbs.chosen();
  return parsed;
}

}  // namespace compilecache::cli
