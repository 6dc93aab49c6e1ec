#include "operator/app.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "api/names.hpp"
#include "base/free_memory.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/release.hpp"
#include "base/version.hpp"
#include "http/server.hpp"
#include "kube/client.hpp"
#include "kube/config.hpp"
#include "kube/cpprest_transport.hpp"
#include "kube/events.hpp"
#include "kube/leader_election.hpp"
#include "kube/reflector.hpp"
#include "operator/agents/agent_routes.hpp"
#include "operator/caches/invalid_caches.hpp"
#include "operator/certificates/certificate_files.hpp"
#include "operator/certificates/certificate_keeper.hpp"
#include "operator/cluster/cluster_watch.hpp"
#include "operator/cluster/resource_api.hpp"
#include "operator/follower_session.hpp"
#include "operator/leader_session.hpp"
#include "operator/metrics/metrics.hpp"
#include "operator/metrics_access.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry_access.hpp"
#include "operator/review_path.hpp"
#include "operator/service_locator.hpp"
#include "operator/settings/injection_settings.hpp"
#include "operator/settings/settings.hpp"
#include "operator/signals.hpp"
#include "operator/versions.hpp"
#include "operator/webhook_service.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kName[] = "compilecache-operator";  // of the Lease, and the reporter of Events
// Parts of an installation appear in any order; the API server may be restarting.
constexpr seconds kStartPatience{60};
constexpr seconds kRetry{2};
constexpr seconds kLastRequests{5};
constexpr seconds kLookAgain{10};  // at memory, and for an answer that is still missing
// How long a review and its answer may take on the wire: no API server waits longer than we let it.
constexpr seconds kWebhookPatience{10};
// An I/O thread that was held up for so long loses connections, or will never go on.
constexpr seconds kSlow{2};
constexpr seconds kHeldUp{20};

// A container that the kubelet starts again in its pod goes on with its own Lease at once: it never
// runs twice.
std::string identity(const OperatorOptions& options) {
  if (!options.pod_name.empty() && !options.pod_uid.empty()) {
    return options.pod_name + "_" + options.pod_uid;
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const std::string name = options.pod_name.empty() ? host.data() : options.pod_name;
  return name + "_" + random_id(system_random());
}

// The image of the own container: what the Jobs' policy lets us use.
Result<std::string> own_image(const kube::Client& client, const OperatorOptions& options) {
  if (options.pod_name.empty()) {
    return fail(ErrorCode::kInvalid,
                "which image do pods get? Give --image, or agentImage in the settings, or POD_NAME "
                "in a cluster");
  }
  auto pod = client.get(kube::resources::kPods, options.ns, options.pod_name);
  if (!pod) return unexpected(pod.error().with("reading the operator's own pod for its image"));
  std::string image;
  for (const auto& container : pod->at("spec").at("containers")) {
    if (image.empty() || container.value("name", "") == "operator") {
      image = container.value("image", "");
    }
  }
  return image;
}

Result<std::string> read_certificates(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file && !text.empty()) return text;
  return fail(ErrorCode::kUnavailable,
              "reading " + path + " (--webhook-client-ca): there is nothing; is it mounted?");
}

RotationPolicy rotation_policy(const Settings& settings) {
  using std::chrono::duration_cast;
  return RotationPolicy::of_lives(duration_cast<seconds>(settings.certificates.authority_life),
                                  duration_cast<seconds>(settings.certificates.leaf_life));
}

// Where the operator is told of a proxy, its Jobs need it too.
std::vector<podspec::Variable> proxy_of_environment() {
  std::vector<podspec::Variable> found;
  for (const char* name : {"HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"}) {
    const char* value = std::getenv(name);
    if (value != nullptr) found.push_back({name, value});
  }
  return found;
}

class Operator {
 public:
  Operator(const OperatorOptions& options, Settings settings, kube::Client client)
      : options_(options),
        settings_(std::move(settings)),
        client_(std::move(client)),
        events_(client_, kName, options.pod_name, clock_),
        review_path_(
            client_, {.ns = options.ns, .webhook_configuration = options.webhook_configuration},
            [this] { return leads(); }, clock_) {
    if (options.authorize_metrics) {
      metrics_endpoint_.emplace(
          metrics_,
          [this](const kube::Resource& resource, const nlohmann::json& object) {
            return client_.create(resource, object);
          },
          clock_);
    }
    std::function<KeyPair()> authority = [] { return KeyPair{}; };
    if (!options.certificates.empty()) {
      certificates_ = std::make_unique<CertificateFiles>(options.certificates);
    } else {
      auto keeper = std::make_unique<CertificateKeeper>(
          client_,
          CertificateKeeperOptions{.ns = options.ns,
                                   .webhook_configuration = options.webhook_configuration,
                                   .policy = rotation_policy(settings_)},
          [this] { return leads(); }, clock_);
      authority = [&keeper = *keeper] { return keeper.current().ca; };
      certificates_ = std::move(keeper);
    }
    settings_.registry.enabled = settings_.registry.enabled || options.registry;
    if (settings_.registry.enabled) make_registry(std::move(authority));
  }

  int run();

 private:
  template <typename Step>
  bool persist(const char* doing, Step step);
  void make_registry(std::function<KeyPair()> serving_authority);
  Status look_around();
  Status listen();
  Status locate_services();
  void registry_found(const api::OwnRegistry& registry);
  void agents_found(const AgentService& found);
  void loads_found(const std::string& address);
  void start_watching();
  Status run_for_leader();
  void leave();

  bool leads() const { return elector_ && elector_->is_leader(); }
  bool ready() const;
  bool overloaded() const;
  bool healthy() const;
  void answer_agent(http::Request request, http::Responder respond);
  void answer_plain(const http::Request& request, const http::Responder& respond);
  http::ServerOptions server_options(uint16_t port, bool tls) const;

  const OperatorOptions& options_;
  const Clock& clock_ = SystemClock::instance();
  Settings settings_;
  const kube::Client client_;
  ClaimsWatch claims_{client_};
  Metrics metrics_;
  kube::EventRecorder events_;
  InvalidCaches invalid_;
  ClusterStores stores_;
  std::unique_ptr<CertificateSource> certificates_;
  ReviewPathKeeper review_path_;
  std::string image_;
  std::optional<WebhookService> webhook_;
  std::optional<ServiceLocator> locator_;
  std::optional<kube::Reflector<api::CompileCache>> caches_;
  std::optional<ClusterWatch> watch_;
  std::optional<LeaderSession> session_;
  std::optional<FollowerSession> follower_;
  std::optional<MetricsEndpoint> metrics_endpoint_;  // with --authorize-metrics
  // Of the installation's own registry, where it has one.
  TokenMinter minter_{clock_, system_random()};
  std::optional<RegistryKeeper> registry_;
  std::optional<RegistryTokenEndpoint> registry_tokens_;
  std::unique_ptr<http::Server> webhook_server_, agent_server_, plain_server_;
  std::optional<kube::LeaderElector> elector_;
  std::atomic<bool> watching_{false};  // what every replica watches
  std::atomic<bool> started_{false};   // the session is
  std::atomic<bool> draining_{false};
};

void Operator::make_registry(std::function<KeyPair()> serving_authority) {
  registry_.emplace(
      client_,
      RegistryKeeperOptions{
          .ns = options_.ns, .name = api::kRegistryService, .serving = rotation_policy(settings_)},
      RegistryKeeperParts{minter_, [this] { return leads(); }, std::move(serving_authority),
                          system_random()},
      clock_);
  registry_tokens_.emplace(
      minter_,
      [this](const kube::Resource& resource, const nlohmann::json& object) {
        return client_.create(resource, object);
      },
      clock_);
}

// Tries a step of the start again and again; false when it cannot work or time or a signal ends it.
template <typename Step>
bool Operator::persist(const char* doing, Step step) {
  const Monotonic end = clock_.monotonic() + kStartPatience;
  while (true) {
    Status done = step();
    if (done) return true;
    log_error(doing, {{"error", done.error().message}});
    if (done.error().code == ErrorCode::kInvalid || clock_.monotonic() > end) return false;
    if (wait_for_signal(kRetry)) return false;
  }
}

int Operator::run() {
  const bool up = persist("looking at the cluster", [this] { return look_around(); }) &&
                  persist("starting to listen", [this] { return listen(); }) &&
                  persist("preparing certificates", [this] { return certificates_->prepare(); });
  if (!up) return 1;
  start_watching();
  if (auto running = run_for_leader(); !running) {
    log_error("running for leader", {{"error", running.error().message}});
    return 1;
  }
  log_info("serving", {{"version", release()},
                       {"commit", build_commit()},
                       {"namespace", options_.ns},
                       {"image", image_},
                       {"webhook", std::to_string(webhook_server_->port())},
                       {"agents", std::to_string(agent_server_->port())},
                       {"plain", std::to_string(plain_server_->port())}});
  MemoryWatch memory;
  while (!wait_for_signal(kLookAgain)) {
    memory.look();
    if (claims_.look()) webhook_->set_resource_claims(claims_.served());
  }
  leave();
  return 0;
}

Status Operator::look_around() {
  if (auto new_enough = check_api_server(client_); !new_enough) return new_enough;
  image_ = !options_.image.empty() ? options_.image : settings_.agent_image;
  if (image_.empty()) {
    auto image = own_image(client_, options_);
    if (!image) return unexpected(image.error());
    image_ = *image;
  }
  if (auto located = locate_services(); !located) return located;
  auto kubelets = read_kubelets(client_);
  if (!kubelets) return unexpected(kubelets.error());
  webhook::InjectionSettings injection = injection_settings(settings_, options_.ns, image_);
  claims_.look();
  injection.resource_claims = claims_.served();
  injection.agent_address = stores_.agents.get().address;
  injection.load_address = stores_.load_address.get();
  injection.own_registry = stores_.registry.get();
  webhook_.emplace(client_, stores_.caches, std::move(injection), events_, metrics_, clock_,
                   settings_.limits.webhook_threads);
  webhook_->set_review_path([this] { return review_path_.path(); },
                            [this] { review_path_.look_soon(); });
  const auto old = too_old(*kubelets);
  if (!old.empty()) {
    webhook_->set_native_sidecars(false);
    log_error("no pod is injected: a kubelet is older than " + to_string(kOldestVersion) +
                  " and would not know native sidecars; upgrade the nodes and restart the operator",
              {{"node", old.front().node},
               {"kubelet", old.front().kubelet},
               {"nodes", std::to_string(old.size())}});
  }
  return {};
}

// A Service that is not there yet will be.
Status Operator::locate_services() {
  if (!options_.agent_address.empty()) settings_.agent.address = options_.agent_address;
  ServiceLocator::Handlers handlers;
  handlers.registry = [this](const api::OwnRegistry& found) { registry_found(found); };
  if (settings_.agent.address.empty()) {
    handlers.agents = [this](const AgentService& found) { agents_found(found); };
    handlers.loads = [this](const std::string& address) { loads_found(address); };
  } else {
    stores_.agents.set({settings_.agent.address, {}});
  }
  locator_.emplace(client_, options_.ns, std::move(handlers));
  if (auto looked = locator_->look(); !looked) return looked;
  const AgentService agents = stores_.agents.get();
  if (agents.trouble.empty()) return {};
  return fail(ErrorCode::kUnavailable, agents.trouble);
}

void Operator::agents_found(const AgentService& found) {
  const AgentService agents = stores_.agents.get().then(found);
  if (!stores_.agents.set(agents)) return;
  if (agents.trouble.empty()) {
    log_info("where agents reach the operator", {{"address", agents.address}});
  } else {
    log_error("pods and Jobs cannot reach the operator", {{"why", agents.trouble}});
  }
  if (webhook_) webhook_->set_agent_address(agents.address);
  if (started_) session_->agent_service_changed();
}

void Operator::loads_found(const std::string& address) {
  if (!stores_.load_address.set(address)) return;
  log_info("where agents reach any replica", {{"address", address.empty() ? "nowhere" : address}});
  if (webhook_) webhook_->set_load_address(address);
}

void Operator::registry_found(const api::OwnRegistry& registry) {
  if (!stores_.registry.set(registry)) return;
  log_info("the installation's own registry",
           {{"host", registry.host}, {"address", registry.address}});
  if (webhook_) webhook_->set_own_registry(registry);
  if (started_) session_->registry_changed();
}

http::ServerOptions Operator::server_options(uint16_t port, bool tls) const {
  return {.address = options_.listen_address, .port = port, .tls = tls};
}

Status Operator::listen() {
  http::ServerOptions webhook_options = server_options(options_.webhook_port, true);
  if (!options_.webhook_client_ca.empty()) {
    auto authorities = read_certificates(options_.webhook_client_ca);
    if (!authorities) return unexpected(authorities.error());
    webhook_options.client_ca = std::move(*authorities);
    webhook_->require_client_certificates();
  }
  webhook_options.limits.body = kWebhookPatience;
  webhook_options.limits.write = kWebhookPatience;
  auto webhook =
      http::Server::start(webhook_options, [this](http::Request request, http::Responder respond) {
        webhook_->handle(std::move(request), std::move(respond));
      });
  if (!webhook) return unexpected(webhook.error());
  http::ServerOptions agent_options = server_options(options_.agent_port, true);
  // No more, since a body is read before it is known who sends it.
  agent_options.limits.body_bytes = longest_agent_message();
  auto agents =
      http::Server::start(agent_options, [this](http::Request request, http::Responder respond) {
        answer_agent(std::move(request), std::move(respond));
      });
  if (!agents) return unexpected(agents.error());
  webhook_server_ = std::move(*webhook);
  agent_server_ = std::move(*agents);
  // Last, since it tells of the others.
  auto plain = http::Server::start(
      server_options(options_.plain_port, false),
      [this](http::Request request, http::Responder respond) { answer_plain(request, respond); });
  if (!plain) return unexpected(plain.error());
  plain_server_ = std::move(*plain);

  certificates_->on_change([this](const ServedCertificate& served) {
    for (http::Server* server : {webhook_server_.get(), agent_server_.get()}) {
      auto set = server->set_certificate(served.leaf.certificate, served.leaf.key);
      if (!set) log_error("serving a new certificate", {{"error", set.error().message}});
    }
    webhook_->set_ca(served.bundle);
  });
  return {};
}

void Operator::start_watching() {
  watch_.emplace(client_, settings_.node_labels, stores_, clock_);
  follower_.emplace(
      FollowerParts{client_, settings_, stores_, *watch_, clock_, registry_ ? &minter_ : nullptr});
  session_.emplace(LeaderParts{client_, settings_, stores_, *watch_, invalid_, *certificates_,
                               events_, metrics_, [this] { return leads(); }, clock_,
                               registry_ ? &minter_ : nullptr, registry_ ? &*registry_ : nullptr},
                   LeaderOptions{options_.ns, image_, options_.pod_ip, agent_server_->port(),
                                 proxy_of_environment(), options_.replace_stuck_pods});
  caches_.emplace(
      client_,
      kube::ReflectorOptions{.resource = resources::kCompileCaches, .fields = own_object_fields()},
      [this](const nlohmann::json& object) { return invalid_.parse(object); }, stores_.caches,
      clock_);
  caches_->start();
  watch_->start();
  follower_->start();
  watching_ = true;
  webhook_->start();
  locator_->start();
  if (metrics_endpoint_) metrics_endpoint_->start();
  if (registry_tokens_) registry_tokens_->start();
}

Status Operator::run_for_leader() {
  kube::LeaderCallbacks callbacks;
  callbacks.on_started = [this] {
    log_info("elected leader");
    session_->start();
    started_ = true;
    review_path_.look_soon();
  };
  callbacks.on_lost = [] {
    // Another may lead already: not one more act.
    log_error("lost the lease: ending at once");
    std::_Exit(1);
  };
  elector_.emplace(client_,
                   kube::LeaderElectionOptions{
                       .ns = options_.ns, .name = kName, .lease = {.identity = identity(options_)}},
                   std::move(callbacks), clock_);
  metrics_.set_leader([this] { return leads(); });
  certificates_->start();
  review_path_.start();
  // Pods are injected and load from volumes whatever becomes of it.
  if (registry_) registry_->start();
  return elector_->start();
}

// Leadership goes first, so that another replica takes over at once; the webhook is the last to go,
// since API servers go on using their connections to a pod that ends (kubernetes#127335).
void Operator::leave() {
  log_info("ending", {{"drain", std::to_string(options_.drain.count()) + "ms"}});
  const Monotonic end = clock_.monotonic() + options_.drain;
  draining_ = true;
  webhook_server_->drain();
  agent_server_->drain();
  session_->stop();
  elector_->stop();
  certificates_->stop();
  review_path_.stop();
  if (registry_) registry_->stop();
  locator_->stop();
  const Duration left = end - clock_.monotonic();
  // A second signal ends the wait.
  if (left > Duration::zero()) wait_for_signal(std::chrono::duration_cast<milliseconds>(left));
  caches_->stop();
  watch_->stop();
  // None, where API servers heeded the drain.
  log_info("closing the webhook",
           {{"connections", std::to_string(webhook_server_->open_connections())},
            {"requests", std::to_string(webhook_server_->requests_in_flight())}});
  webhook_server_->stop(kLastRequests);
  webhook_->stop();
  agent_server_->stop(kLastRequests);
  follower_->stop();
  if (metrics_endpoint_) metrics_endpoint_->stop();
  if (registry_tokens_) registry_tokens_->stop();
  plain_server_->stop(milliseconds(0));
  events_.stop();
}

bool Operator::ready() const {
  return !draining_ && webhook_ && webhook_->synced() && webhook_server_ &&
         webhook_server_->has_certificate() && certificates_->trusted() && !overloaded();
}

// Another replica is asked then, or none: API servers go on at once where nobody listens.
bool Operator::overloaded() const {
  return webhook_->overloaded() || webhook_server_->held_up() >= kSlow;
}

// What a restart alone can mend.
bool Operator::healthy() const {
  if (webhook_ && webhook_->stuck()) return false;
  return (!webhook_server_ || webhook_server_->held_up() < kHeldUp) &&
         (!agent_server_ || agent_server_->held_up() < kHeldUp);
}

// Every replica tells its metrics, gives people tokens and answers loads; all else is the leader's.
void Operator::answer_agent(http::Request request, http::Responder respond) {
  if (metrics_endpoint_ && request.path == "/metrics") {
    metrics_endpoint_->handle(std::move(request), std::move(respond));
  } else if (registry_tokens_ && request.path == kRegistryTokenPath) {
    registry_tokens_->handle(std::move(request), std::move(respond));
  } else if (started_ && leads() && session_->serving()) {
    session_->handle(std::move(request), std::move(respond));
  } else if (watching_) {
    follower_->handle(std::move(request), std::move(respond));
  } else {
    respond(not_leading());
  }
}

void Operator::answer_plain(const http::Request& request, const http::Responder& respond) {
  if (request.path == "/healthz") {
    respond(healthy() ? http::text_response(200, "ok")
                      : http::text_response(503, "a thread does not go on"));
  } else if (request.path == "/readyz") {
    respond(ready() ? http::text_response(200, "ok")
                    : http::text_response(503, draining_ ? "ending" : "starting or overloaded"));
  } else if (request.path == "/metrics" && metrics_endpoint_) {
    respond(http::text_response(403, "the metrics are on the agents' port, by HTTPS with a token"));
  } else if (request.path == "/metrics") {
    respond(metrics_response(metrics_));
  } else {
    respond(http::text_response(404, "there are /healthz, /readyz and /metrics"));
  }
}

LogLevel level_of(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warn") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

}  // namespace

int run_operator(const OperatorOptions& options) {
  block_signals();
  keep_little_free_memory();
  log_init(options.log_format == "json" ? LogFormat::kJson : LogFormat::kText,
           level_of(options.log_level));
  auto settings = load_settings(options.settings);
  if (!settings) {
    log_error(settings.error().message);
    return 1;
  }
  auto config = kube::load_config({options.kubeconfig, options.context});
  if (!config) {
    log_error(config.error().message);
    return 1;
  }
  auto transport = kube::make_transport(*config);
  if (!transport) {
    log_error(transport.error().message);
    return 1;
  }
  return Operator(options, std::move(*settings), kube::Client(std::move(*transport))).run();
}

}  // namespace compilecache::controller
