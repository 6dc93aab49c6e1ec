#include "tests/simulation/installation/operator_replica.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/names.hpp"
#include "base/clock.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "kube/leader_election.hpp"
#include "kube/reflector.hpp"
#include "operator/cluster/cluster_watch.hpp"
#include "operator/follower_session.hpp"
#include "operator/leader_session.hpp"
#include "operator/service_locator.hpp"
#include "operator/settings/injection_settings.hpp"
#include "operator/webhook_service.hpp"
#include "webhook/admission.hpp"

namespace compilecache::simulation {
namespace {

// The keeper's own thread looks every 10 s, which costs certificates each time: here it does so
// until the registry runs, and seldom from then on.
constexpr int64_t kKeeperStarts = 60 * kSecond;
constexpr int64_t kKeeperStarting = 10 * kSecond;
constexpr int64_t kKeeperRunning = 600 * kSecond;

// As operator/app.cpp waits for what it needs at its start.
constexpr int64_t kStartPatience = 60 * kSecond;
constexpr int64_t kStartRetry = 2 * kSecond;

constexpr char kImage[] = "operator:1";
constexpr int kWebhookThreads = 2;

// A tenth of the usual requests, which are most of an idle day's.
kube::lease::Config slow_lease(const std::string& identity) {
  return {.identity = identity,
          .lease_duration = std::chrono::seconds(60),
          .renew_deadline = std::chrono::seconds(40),
          .retry_period = std::chrono::seconds(20),
          .follow_period = std::chrono::seconds(10)};
}

// Events are not judged here.
class NoEvents : public kube::EventSink {
 public:
  void record(const kube::EventRecord& /*record*/) override {}
};

// Serving needs no TLS in the simulation.
class NoCertificates : public controller::CertificateSource {
 public:
  void on_change(Handler /*handler*/) override {}
  Status prepare() override { return {}; }
  void start() override {}
  void stop() override {}
  Status round() override { return {}; }
  [[nodiscard]] controller::ServedCertificate served() const override { return {}; }
  [[nodiscard]] bool trusted() const override { return true; }
};

}  // namespace

// As operator/app.cpp puts it together, without servers.
struct OperatorReplica::Running {
  Running(ApiServer& api, const ReplicaOptions& given)
      : options(given), settings(given.settings), client(api.transport(given.name)) {
    locator.emplace(client, options.ns,
                    controller::ServiceLocator::Handlers{
                        .registry = [this](const auto& found) { registry_found(found); },
                        .agents =
                            [this](const auto& found) {
                              const auto agents = stores.agents.get().then(found);
                              if (!stores.agents.set(agents)) return;
                              if (webhook) webhook->set_agent_address(agents.address);
                              if (started) session->agent_service_changed();
                            },
                        .loads =
                            [this](const auto& found) {
                              if (stores.load_address.set(found) && webhook) {
                                webhook->set_load_address(found);
                              }
                            }});
    keeper.emplace(
        client, controller::RegistryKeeperOptions{options.ns, api::kRegistryService},
        controller::RegistryKeeperParts{minter, [this] { return leads(); },
                                        [] { return controller::KeyPair{}; }, system_random()},
        clock);
    watch.emplace(client, settings.node_labels, stores, clock);
    follower.emplace(controller::FollowerParts{client, settings, stores, *watch, clock, &minter});
    session.emplace(
        controller::LeaderParts{client, settings, stores, *watch, invalid, certificates, events,
                                metrics, [this] { return leads(); }, clock, &minter, &*keeper},
        controller::LeaderOptions{
            .ns = options.ns, .image = kImage, .endpoint_address = options.address});
    caches.emplace(
        client, kube::ReflectorOptions{.resource = controller::resources::kCompileCaches},
        [this](const nlohmann::json& object) { return invalid.parse(object); }, stores.caches,
        clock);
    kube::LeaderCallbacks callbacks;
    callbacks.on_started = [this] {
      session->start();
      started = true;
    };
    callbacks.on_lost = [] { std::_Exit(1); };
    elector.emplace(
        client,
        kube::LeaderElectionOptions{
            .ns = options.ns, .name = "compilecache-operator", .lease = slow_lease(options.name)},
        std::move(callbacks), clock);
  }

  [[nodiscard]] bool leads() const { return elector && elector->is_leader(); }

  void registry_found(const api::OwnRegistry& found) {
    if (!stores.registry.set(found)) return;
    if (webhook) webhook->set_own_registry(found);
    if (started) session->registry_changed();
  }

  void run() {
    const int64_t began = now_ns();
    while (!locator->look()) {
      if (now_ns() - began > kStartPatience) std::_Exit(1);
      sleep_for_ns(kStartRetry);
    }
    make_webhook();
    caches->start();
    webhook->start();
    watch->start();
    follower->start();
    watching = true;
    if (auto running = elector->start(); !running) std::_Exit(1);
    while (true) {
      // What fails is tried again in the next round.
      (void)keeper->round();
      (void)locator->look();
      sleep_for_ns(now_ns() - began < kKeeperStarts ? kKeeperStarting : kKeeperRunning);
    }
  }

  void make_webhook() {
    webhook::InjectionSettings injection =
        controller::injection_settings(settings, options.ns, kImage);
    injection.agent_address = stores.agents.get().address;
    injection.load_address = stores.load_address.get();
    injection.own_registry = stores.registry.get();
    webhook.emplace(client, stores.caches, std::move(injection), events, metrics, clock,
                    kWebhookThreads);
  }

  const ReplicaOptions options;
  const controller::Settings settings;
  const Clock& clock = SystemClock::instance();
  const kube::Client client;
  controller::ClusterStores stores;
  controller::InvalidCaches invalid;
  NoCertificates certificates;
  NoEvents events;
  controller::Metrics metrics;
  controller::TokenMinter minter{clock, system_random()};
  std::optional<controller::ServiceLocator> locator;
  std::optional<controller::RegistryKeeper> keeper;
  std::optional<controller::ClusterWatch> watch;
  std::optional<controller::FollowerSession> follower;
  std::optional<controller::LeaderSession> session;
  std::optional<kube::Reflector<api::CompileCache>> caches;
  std::optional<controller::WebhookService> webhook;
  std::optional<kube::LeaderElector> elector;
  bool watching = false, started = false;
};

OperatorReplica::OperatorReplica(ApiServer& api, ReplicaOptions options)
    : api_(api), options_(std::move(options)) {}

void OperatorReplica::start() {
  running_ = nullptr;
  process_ = start_process(options_.name, [this] {
    auto* running = new Running(api_, options_);
    running_ = running;
    running->run();
  });
  simulation::set_clock_offset(process_, clock_offset_);
}

void OperatorReplica::kill() {
  if (is_alive()) kill_process(process_);
}

void OperatorReplica::freeze(int64_t duration) {
  if (!is_alive()) return;
  const ProcessId frozen = process_;
  freeze_process(frozen);
  start_thread(kWorld, "thaws " + options_.name, [frozen, duration] {
    sleep_for_ns(duration);
    thaw_process(frozen);
  });
}

void OperatorReplica::set_clock_offset(int64_t offset) {
  clock_offset_ = offset;
  if (is_alive()) simulation::set_clock_offset(process_, offset);
}

bool OperatorReplica::leads() const {
  return is_alive() && running_ != nullptr && running_->leads();
}

bool OperatorReplica::is_alive() const {
  return process_ != kWorld && simulation::is_alive(process_);
}

bool OperatorReplica::serve(http::Request request, http::Responder respond) {
  if (!is_alive() || running_ == nullptr) return false;
  Running* running = running_;
  start_thread(process_, "request",
               [running, request = std::move(request), respond = std::move(respond)]() mutable {
                 if (running->started && running->leads() && running->session->serving()) {
                   running->session->handle(std::move(request), std::move(respond));
                 } else if (running->watching) {
                   running->follower->handle(std::move(request), std::move(respond));
                 } else {
                   respond(controller::not_leading());
                 }
               });
  return true;
}

bool OperatorReplica::review(http::Request request, http::Responder respond) {
  if (!is_alive() || running_ == nullptr || !running_->watching) return false;
  Running* running = running_;
  if (!running->webhook->synced()) return false;
  start_thread(process_, "review",
               [running, request = std::move(request), respond = std::move(respond)]() mutable {
                 // The decision's memory is its thread's, and fibers share the one thread.
                 static auto* const one_at_a_time = new Mutex;
                 const Syscall to_its_end;
                 const MutexLock lock(*one_at_a_time);
                 respond({.body = webhook::admit(request.body, *running->webhook).body});
               });
  return true;
}

}  // namespace compilecache::simulation
