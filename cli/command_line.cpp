#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <string_view>
#include <utility>

#include "base/version.hpp"
#include "cli/cluster/undo.hpp"
#include "cli/doctor/doctor_command.hpp"
#include "cli/enable/enable_command.hpp"
#include "cli/report/prometheus.hpp"
#include "cli/shell/cluster_names.hpp"
#include "cli/shell/command_help.hpp"
#include "cli/shell/completion_scripts.hpp"
#include "cli/shell/duration_option.hpp"
#include "cli/shell/output_option.hpp"
#include "cli/shell/usage_error.hpp"
#include "cli/shell/version_command.hpp"

namespace compilecache::cli {
namespace {

constexpr CommandHelp kProgramHelp{
    .about =
        R"(CompileCaches keep what torch.compile, Triton, vLLM, SGLang or JAX compiled in one pod for the next one.)",
    .examples = R"(  # How do the CompileCaches of a namespace do, and what is wrong?
  kubectl compilecache status -n ml

  # Why does this pod start slowly?
  kubectl compilecache explain web-6d9f7c5b8-x2x7k -n ml

  # Before a roll-out: compile for the new image once, so that its pods start warm
  kubectl compilecache prewarm deployment/llama --image registry.example/llama:2 -n ml
)"};

constexpr CommandHelp kInjectHelp{
    .about =
        R"(Prints all manifests as YAML. Pod templates with the annotation compilecache.dev/cache are injected as the
webhook would do it. Standard error has one report for each: outcome, reason and what to do. No cluster is
asked: CompileCaches, LimitRanges and ResourceQuotas are those among the manifests, and a CompileCache without
a status counts as ready.)",
    .examples = R"(  # What would the webhook make of these manifests?
  kubectl compilecache inject -f deploy/ --cache cache.yaml > injected.yaml

  # With the settings of an installation
  kubectl compilecache inject -f deploy/ --settings config/settings.yaml > injected.yaml
)",
    .exit_status =
        "0 if every annotated template was injected, 1 if one was left as it is, 2 if a file "
        "cannot "
        "be read or the command line is wrong; then nothing is printed."};

constexpr CommandHelp kExplainHelp{
    .about =
        R"(For one pod: injected or why not, its key, the archive, how long each step of its start took, what the
archive was worth, what was compiled again and why, and what to change.

For a workload: what its pods have in common, how many started warm, partly warm, cold or without injection,
and what to do about the commonest fault.

It reads pods, their CompileCache and its archives, Events, and the log of a known engine. You need the right to
read those; the output lists what could not be read.)",
    .examples = R"(  # One pod
  kubectl compilecache explain web-6d9f7c5b8-x2x7k -n ml

  # The pods of a Deployment
  kubectl compilecache explain deployment/web -n ml

  # For scripts
  kubectl compilecache explain deployment/web -n ml -o json
)",
    .exit_status =
        "0 if it was explained, 1 if the pod or the workload cannot be read, 2 if the command line "
        "is "
        "wrong."};

constexpr CommandHelp kStatusHelp{
    .about =
        R"(Archives by GPU product, what pods found and what it was worth, what is wrong and what to do, why the last
pods started cold. You need the right to list CompileCaches and their archives.)",
    .examples = R"(  # All CompileCaches of a namespace
  kubectl compilecache status -n ml

  # One, again whenever it changes
  kubectl compilecache status llama -n ml --watch

  # Those of all namespaces, for scripts
  kubectl compilecache status -A -o json
)",
    .exit_status =
        "0 if it was printed, 1 if they cannot be read, 2 if the command line is wrong."};

constexpr CommandHelp kPrewarmHelp{
    .about =
        R"(Runs one pod of the new template on each kind of GPU until its archive is saved, and deletes the pod. No
Service, controller or budget counts that pod: the labels by which they select are removed. If the archive
exists already, no pod is made. You need the right to create and delete pods and to list nodes.)",
    .examples = R"(  # The image that you are about to roll out
  kubectl compilecache prewarm deployment/llama --image registry.example/llama:2 -n ml

  # Workloads of manifests, on one kind of GPU
  kubectl compilecache prewarm -f deploy/ -n ml --gpu NVIDIA-H100-80GB-HBM3
)",
    .exit_status =
        "0 if all archives exist, 1 if one does not, 2 if something cannot be read or the command "
        "line "
        "is wrong, 128 and the signal's number after a signal. The pods are deleted in every "
        "case."};

constexpr CommandHelp kReportHelp{
    .about =
        R"(One page to send on. The summary is for those who pay: GPU-hours and money saved, the period, cold beside warm
starts. The appendix is for engineers: faults and what to do, first pods, archives by GPU and age. The page needs
no other file and no script. The hit rate over the last 14 days comes from Prometheus if you name one, without
credentials. You need the right to list CompileCaches and CompileCacheArchives.)",
    .examples = R"(  # All namespaces, shown in the browser
  kubectl compilecache report -A -f report.html --open

  # In money
  kubectl compilecache report -A -f report.html --gpu-hour-price 2.50EUR

  # With the hit rate over time
  kubectl port-forward -n monitoring service/prometheus 9090 &
  kubectl compilecache report -A --prometheus http://localhost:9090 > report.html
)",
    .exit_status =
        "0 if it was made, 1 if the CompileCaches cannot be read or the file cannot be written, 2 "
        "if the command line is wrong. 3 if it was made but Prometheus gave no answer (the page "
        "says so), or no browser could be opened."};

constexpr CommandHelp kDoctorHelp{
    .about =
        R"(Checks versions, the webhook and its certificates, an injection (dry run), nodes, storage, NetworkPolicies, quotas,
the installed registry and the CompileCaches of a namespace, a line for each with what to do next: ok, warn, FAIL,
or skip for what you may not read. It changes nothing.)",
    .examples = R"(  # Does the installation work for a namespace?
  kubectl compilecache doctor -n ml

  # Before an installation: is the cluster ready, and may you install?
  kubectl compilecache doctor --preflight
)",
    .exit_status =
        "0 if nothing has failed, warnings or not, 1 if something has or the API server does not "
        "answer, 2 if the command line is wrong."};

constexpr CommandHelp kEnableHelp{
    .about =
        R"(Creates a CompileCache for the workload, unless there is one, and writes the annotation compilecache.dev/cache
into its pod template. Without --yes both are only shown, as YAML that kubectl apply --server-side takes, and
tried on the API server. The frameworks are those of the engine that the pod template shows.

You need the right to get and patch the workload, and to get and create CompileCaches.)",
    .examples = R"(  # What would be written, and what happens then
  kubectl compilecache enable deployment/web -n ml

  # Write it
  kubectl compilecache enable deployment/web -n ml --yes

  # Archives on a volume, in a CompileCache of another name
  kubectl compilecache enable statefulset/llama --cache llama-2 --storage claim=compile-caches -n ml
)",
    .exit_status =
        "0 if the workload is enabled or would be, 1 if it cannot be, 2 if the command line is "
        "wrong."};

constexpr CommandHelp kVersionHelp{
    .about =
        R"(The version of this program and, if a cluster answers, of the operator and the API installed there. You need
the right to list Deployments for the operator's.)",
    .examples = R"(  kubectl compilecache version

  # Without asking a cluster
  kubectl compilecache version --client -o json
)"};

constexpr CommandHelp kCompletionHelp{
    .about =
        R"(Prints a script with which a shell completes kubectl-compilecache and kubectl-cc: commands, options, and the
names of namespaces, CompileCaches, archives, workloads and pods in the cluster.

`kubectl compilecache` itself is completed by kubectl's own completion (`kubectl completion --help`), from version
1.26, if the program kubectl_complete-compilecache is on the PATH. Releases have it beside the plugin.)",
    .examples = R"(  # This shell
  source <(kubectl compilecache completion bash)

  # Every new one
  kubectl compilecache completion bash > /etc/bash_completion.d/kubectl-compilecache
  kubectl compilecache completion zsh > "${fpath[1]}/_kubectl-compilecache"
  kubectl compilecache completion fish > ~/.config/fish/completions/kubectl-compilecache.fish
)"};

constexpr CommandHelp kHelpHelp{.about = "Without a command, the list of commands.",
                                .examples = "  kubectl compilecache help status\n"};

void describe_inject(CLI::App& inject, InjectOptions& how) {
  inject
      .add_option("-f,--filename", how.files,
                  "manifests, YAML or JSON: files, folders with all below them, - for standard "
                  "input")
      ->required();
  inject.add_option("--cache", how.caches,
                    "CompileCaches that are not among the manifests; they count first");
  inject.add_option("-n,--namespace", how.ns, "of manifests that name none")->capture_default_str();
  inject.add_option("--settings", how.settings,
                    "YAML file, see config/settings.yaml; default: "
                    "/etc/compilecache/settings.yaml where it is, else this release's");
  inject.add_option(
      "--agent-image", how.image,
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
  explain
      .add_option(
          "POD|WORKLOAD", how.what,
          "name of a pod, or deployment/NAME; also statefulset, daemonset, replicaset, job, "
          "rollout")
      ->required()
      ->expected(1, 2);
  explain.add_option("-n,--namespace", how.ns, "its own; default: the kubeconfig's");
  add_output(explain, how.output, {"json", "yaml"}, "default: a text for people");
  describe_kubeconfig(explain, how);
}

void describe_status(CLI::App& status, StatusOptions& how) {
  auto* name =
      status.add_option("CACHE", how.name, "of one CompileCache; default: all of the namespace");
  auto* ns =
      status.add_option("-n,--namespace", how.ns, "their namespace; default: the kubeconfig's");
  status.add_flag("-A,--all-namespaces", how.all_namespaces, "all of the cluster")
      ->excludes(name)
      ->excludes(ns);
  add_output(status, how.output, {"json", "yaml", "name"}, "default: a text for people");
  status.add_option("-l,--selector", how.selector, "by labels, as kubectl has it: app=web,!old")
      ->excludes(name);
  status.add_flag("-w,--watch", how.watch, "print it again whenever it changes, until Ctrl-C");
  describe_kubeconfig(status, how);
}

void describe_prewarm(CLI::App& prewarm, PrewarmOptions& how) {
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
  add_duration(prewarm, "--timeout", how.timeout, "how long to wait for the archive");
  add_duration(prewarm, "--schedule-timeout", how.schedule_timeout,
               "how long to wait for a node that takes the pod");
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
  auto* ns = report.add_option("-n,--namespace", how.ns, "of which; default: the kubeconfig's");
  report.add_flag("-A,--all-namespaces", how.all_namespaces, "all of the cluster")->excludes(ns);
  report.add_option("-o,--output", how.output, "html, json or yaml")
      ->capture_default_str()
      ->check(CLI::IsMember({"html", "json", "yaml"}));
  auto* file = report.add_option("-f,--filename", how.file,
                                 "write it to this file; default, and -: standard output");
  report.add_flag("--open", how.open, "open the file in the browser")->needs(file);
  report
      .add_option_function<std::string>(
          "--gpu-hour-price",
          [&how](const std::string& text) { how.gpu_hour_price = *parse_price(text); },
          "what one GPU costs for one hour, to report money too: 2.50 (USD) or 2.50EUR")
      ->check([](const std::string& text) {
        const auto price = parse_price(text);
        return price ? std::string() : price.error().message;
      });
  report.callback([&how] {
    if (how.open && (how.file == "-" || how.output != "html"))
      throw CLI::ValidationError("--open", "it needs a file of HTML: -f report.html");
  });
  report
      .add_option("--prometheus", how.prometheus,
                  "URL of the Prometheus that reads the operator's metrics, http:// or https://")
      ->check([](const std::string& url) {
        const auto checked = check_prometheus_url(url);
        return checked ? std::string() : checked.error().message;
      });
  describe_kubeconfig(report, how);
}

void describe_doctor(CLI::App& doctor, DoctorOptions& how) {
  doctor.add_option("-n,--namespace", how.cluster.ns,
                    "in which pods are to be injected; default: the kubeconfig's");
  doctor.add_flag("--preflight", how.preflight, "before an installation");
  doctor.add_option("--operator-namespace", how.operator_namespace,
                    "where the operator is; default: where the webhook's configuration says, else "
                    "compilecache-system");
  doctor.add_option("-o,--output", how.output, "json or yaml; default: a text for people")
      ->check(CLI::IsMember({"json", "yaml"}));
  describe_kubeconfig(doctor, how.cluster);
}

void describe_enable(CLI::App& enable, EnableOptions& how) {
  enable
      .add_option("WORKLOAD", how.workload,
                  "deployment/NAME; also statefulset, daemonset, replicaset, cronjob, rollout")
      ->required();
  enable.add_option("--cache", how.cache_name,
                    "name of the CompileCache, which may exist; default: the workload's");
  enable.add_option("--storage", how.storage,
                    "of a new CompileCache: registry (installed with the operator) or claim=NAME; "
                    "default: registry, if it is installed");
  enable.add_flag("--yes", how.yes, "apply it");
  enable
      .add_option("--operator-namespace", how.operator_namespace,
                  "where the operator, its settings and its registry are")
      ->capture_default_str();
  enable.add_option("-n,--namespace", how.cluster.ns, "of the workload; default: the kubeconfig's");
  describe_kubeconfig(enable, how.cluster);
}

void describe_version(CLI::App& version, VersionOptions& how) {
  how.commit = build_commit();
  version.add_flag("--client", how.client_only, "the version of this program alone");
  version.add_option("-o,--output", how.output, "json or yaml; default: a text for people")
      ->check(CLI::IsMember({"json", "yaml"}));
  describe_kubeconfig(version, how.cluster);
}

// kubectl finds it by this name, or by a link to it that is called kubectl-cc.
std::string called_as(int argc, const char* const* argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  return path.substr(path.rfind('/') + 1) == "kubectl-cc" ? "kubectl cc" : "kubectl compilecache";
}

constexpr char kShow[] = "See how it does", kBegin[] = "Prepare", kTool[] = "About this program";

// All commands with their options, before and after the command line is parsed.
class Commands {
 public:
  explicit Commands(const std::string& name)
      : app_("see, warm and move the archives of CompileCaches", name) {
    set_help(app_, kProgramHelp);
    app_.set_version_flag("--version", version_line("kubectl-compilecache"),
                          "print the version of this program");
    app_.require_subcommand(0, 1);
    describe_status(add("status", "show the state of CompileCaches, what is wrong and what to do",
                        kShow, kStatusHelp),
                    status_);
    describe_explain(add("explain", "show why a pod, or the pods of a workload, start slowly",
                         kShow, kExplainHelp),
                     explain_);
    describe_report(
        add("report", "make a page of what was saved, to send to a manager", kShow, kReportHelp),
        report_);
    describe_doctor(add("doctor", "check an installation, a namespace, or a cluster before it",
                        kShow, kDoctorHelp),
                    doctor_);
    describe_prewarm(add("prewarm", "before a roll-out, warm the archives that its pods will load",
                         kBegin, kPrewarmHelp),
                     prewarm_);
    describe_enable(add("enable", "create a CompileCache for a workload and annotate its pods",
                        kBegin, kEnableHelp),
                    enable_);
    describe_inject(add("inject", "print manifests as the webhook would make them; no cluster",
                        kBegin, kInjectHelp),
                    inject_);
    archive_verbs_.emplace(app_);
    describe_version(add("version", "show the versions of this program and of what is installed",
                         kTool, kVersionHelp),
                     version_);
    add("completion", "print a script for the completion of a shell", kTool, kCompletionHelp)
        .add_option("SHELL", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    add("help", "show the help of a command", kTool, kHelpHelp)
        .add_option("COMMAND", help_of_, "a command, as the list has it");
  }

  [[nodiscard]] const CLI::App& app() const { return app_; }

  CommandLine parse(int argc, const char* const* argv) {
    CommandLine parsed;
    try {
      app_.parse(argc, argv);
    } catch (const CLI::Success& asked) {
      app_.exit(asked);
      return parsed;
    } catch (const CLI::ParseError& error) {
      std::cerr << usage_error(app_, error, argc > 1 ? argv[1] : "");
      parsed.exit_code = kWrongUsage;
      return parsed;
    }
    const auto chosen = app_.get_subcommands();
    const std::string name = chosen.empty() ? "help" : chosen.front()->get_name();
    if (name == "help") parsed.exit_code = help();
    if (name == "completion") std::cout << completion_script(shell_);
    if (name == "version") {
      parsed.verb = [how = version_] { return run_version(how, std::cout, std::cerr); };
      return parsed;
    }
    if (name == "doctor") {
      parsed.verb = [how = doctor_] { return run_doctor(how, std::cout, std::cerr); };
      return parsed;
    }
    if (name == "enable") {
      parsed.verb = [how = enable_] {
        undo_at_signals();
        return run_enable(how, std::cout, std::cerr);
      };
      return parsed;
    }
    if (name == "inject") parsed.inject = std::move(inject_);
    if (name == "explain") parsed.explain = std::move(explain_);
    if (name == "status") parsed.status = std::move(status_);
    if (name == "prewarm") parsed.prewarm = std::move(prewarm_);
    if (name == "report") parsed.report = std::move(report_);
    parsed.verb = archive_verbs_->chosen();
    return parsed;
  }

 private:
  static constexpr int kWrongUsage = 2;

  CLI::App& add(const char* name, const char* summary, const char* group, const CommandHelp& help) {
    CLI::App* command = app_.add_subcommand(name, summary)->group(group);
    set_help(*command, help);
    return *command;
  }

  // Null: there is no such command.
  [[nodiscard]] const CLI::App* find(const std::string& name) const {
    const auto found =
        app_.get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
    return found.empty() ? nullptr : found.front();
  }

  int help() {
    const CLI::App* about = help_of_.empty() ? &app_ : find(help_of_);
    if (about == nullptr) {
      std::cerr << unknown_command(app_, help_of_) << "\n";
      return kWrongUsage;
    }
    std::cout << help_of(*about);
    return 0;
  }

  CLI::App app_;
  std::optional<ArchiveVerbs> archive_verbs_;
  InjectOptions inject_;
  DoctorOptions doctor_;
  EnableOptions enable_;
  ExplainOptions explain_;
  StatusOptions status_;
  PrewarmOptions prewarm_;
  ReportOptions report_;
  VersionOptions version_;
  std::string shell_, help_of_;
};

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv) {
  Commands commands(called_as(argc, argv));
  // Hidden, and before all else: what is to be completed is no command line yet.
  if (argc > 1 && std::string_view(argv[1]) == "__complete") {
    std::cout << complete(commands.app(), {argv + 2, argv + argc}, cluster_names);
    return {};
  }
  return commands.parse(argc, argv);
}

}  // namespace compilecache::cli
