#include "operator/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <utility>

#include "base/version.hpp"

namespace compilecache::controller {
namespace {

constexpr char kDescription[] =
    R"(Keeps what torch.compile compiled on a shared volume and puts it into the next pod.

In a cluster it is started by config/install.yaml. Users create a CompileCache and annotate
their pod templates with compilecache.dev/cache: NAME; this program
  - answers the API server's admission webhook and puts loader and saver into such pods,
  - answers those loaders and savers (which archive is mine? may I save now?),
  - on one replica, the leader: checks claims, starts sweep Jobs, deletes stale archives and
    writes the status that `kubectl get compilecaches` shows.

Outside a cluster, for development, with the resources of config/crds.yaml installed:
  compilecache-operator --settings config/settings.yaml --kubeconfig ~/.kube/config \
    --namespace compilecache-system --image compilecache:dev \
    --agent-address 127.0.0.1 --log-format text)";

constexpr char kFooter[] = R"(
Environment: POD_NAME, POD_UID, POD_NAMESPACE and POD_IP as the downward API gives them.
Signals: SIGTERM and SIGINT end it gracefully: the lease is released, the webhook serves on for --drain.
Exit status: 0 after a signal, 1 when it could not start or lost the lease, 2 for a wrong command line.)";

void add_cluster_options(CLI::App& app, OperatorOptions& options) {
  app.add_option("--settings", options.settings, "YAML file, see config/settings.yaml")
      ->capture_default_str()
      ->group("Cluster");
  app.add_option("--kubeconfig", options.kubeconfig,
                 "how to reach the API server; default: KUBECONFIG, the pod's service account, "
                 "~/.kube/config")
      ->group("Cluster");
  app.add_option("--context", options.context, "of the kubeconfig; default: its current one")
      ->group("Cluster");
  app.add_option("--namespace", options.ns,
                 "where the operator's Lease, Secret and Services are; default: POD_NAMESPACE")
      ->envname("POD_NAMESPACE")
      ->group("Cluster");
  app.add_option("--webhook-configuration", options.webhook_configuration,
                 "MutatingWebhookConfiguration whose caBundle the leader keeps right")
      ->capture_default_str()
      ->group("Cluster");
  app.add_option(
         "--certificates", options.certificates,
         "folder with tls.crt, tls.key and ca.crt, which somebody else renews together with "
         "caBundle; default: an authority of our own")
      ->group("Cluster");
  app.add_option(
         "--image", options.image,
         "image of loader, saver and sweep Jobs; default: agentImage of the settings, else the "
         "image of the pod POD_NAME")
      ->group("Cluster");
  app.add_option(
         "--advertise-address", options.pod_ip,
         "the leader's IP in the EndpointSlice of the agent API; default: POD_IP, else none "
         "is written")
      ->envname("POD_IP")
      ->group("Cluster");
  app.add_option(
         "--agent-address", options.agent_address,
         "IP that pods are given for the agent API; default: agent.address of the settings, "
         "else the Service's ClusterIP")
      ->group("Cluster");
  app.add_flag("--registry", options.registry,
               "the installation has a registry of its own, as registry.enabled in the settings "
               "says too; needs config/components/registry")
      ->group("Cluster");
  app.add_flag("--replace-stuck-pods", options.replace_stuck_pods,
               "evict pods that cannot start with what was injected, while injection is paused, so "
               "that they come back without; needs config/components/replace-stuck-pods")
      ->group("Cluster");
}

constexpr char kAuthorizeMetrics[] =
    "/metrics no longer on the plain port but on the agents', HTTPS, for holders of a token whose "
    "user may `get` the path /metrics; needs config/components/metrics-access";

void add_serving_options(CLI::App& app, OperatorOptions& options, int64_t& drain_ms) {
  app.add_option("--listen-address", options.listen_address,
                 "IP to listen on; default: all addresses")
      ->group("Serving");
  app.add_option("--webhook-port", options.webhook_port, "HTTPS, POST /mutate")
      ->capture_default_str()
      ->group("Serving");
  app.add_option(
         "--webhook-client-ca", options.webhook_client_ca,
         "PEM file, read at the start: answer API servers only that show a certificate of "
         "these authorities, see docs/run/api-server-certificates.md; default: any, by a path "
         "that nobody else knows")
      ->group("Serving");
  app.add_option("--agent-port", options.agent_port, "HTTPS, what loaders and savers call")
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--plain-port", options.plain_port, "HTTP: /healthz, /readyz, /metrics")
      ->capture_default_str()
      ->group("Serving");
  app.add_flag("--authorize-metrics", options.authorize_metrics, kAuthorizeMetrics)
      ->group("Serving");
  app.add_option("--drain", drain_ms,
                 "how long the webhook serves on after SIGTERM, since API servers keep their "
                 "connections; like 10s")
      ->default_str("10s")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, int64_t>{{"ms", 1}, {"s", 1000}, {"m", 60'000}},
          CLI::AsNumberWithUnit::CASE_SENSITIVE, "DURATION"))
      ->group("Serving");
  app.add_option("--log-format", options.log_format, "json or text")
      ->check(CLI::IsMember({"json", "text"}))
      ->capture_default_str()
      ->group("Serving");
  app.add_option("--log-level", options.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str()
      ->group("Serving");
}

}  // namespace

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  OperatorOptions& options = parsed.options;
  int64_t drain_ms = options.drain.count();
  CLI::App app(kDescription, "compilecache-operator");
  app.footer(kFooter);
  app.set_version_flag("--version", version_line("compilecache-operator"));
  add_cluster_options(app, options);
  add_serving_options(app, options, drain_ms);
  app.add_subcommand("run", "what it does without a subcommand, too: serve until a signal comes")
      ->fallthrough();
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    if (options.ns.empty()) {
      throw CLI::RequiredError("--namespace (or the variable POD_NAMESPACE)");
    }
  } catch (const CLI::ParseError& error) {
    parsed.exit = true;
    parsed.exit_code = app.exit(error) == 0 ? 0 : 2;
    return parsed;
  }
  if (const char* name = std::getenv("POD_NAME")) options.pod_name = name;
  if (const char* uid = std::getenv("POD_UID")) options.pod_uid = uid;
  options.drain = std::chrono::milliseconds(drain_ms);
  return parsed;
}

}  // namespace compilecache::controller
