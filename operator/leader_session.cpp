#include "operator/leader_session.hpp"

#include <atomic>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "api/agent_api.hpp"
#include "api/names.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/time_format.hpp"
#include "kube/reflector.hpp"
#include "kube/worker.hpp"
#include "kube/workqueue.hpp"
#include "operator/agents/agent_api.hpp"
#include "operator/agents/agent_endpoint.hpp"
#include "operator/agents/device_reader.hpp"
#include "operator/breaker/breaker_keeper.hpp"
#include "operator/caches/compile_cache_controller.hpp"
#include "operator/caches/status_writer.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/registry/registry_collector.hpp"
#include "operator/storage/sweeper.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Changes that come in bursts are looked at together.
constexpr milliseconds kPodsSettle{1000};
constexpr milliseconds kArchivesSettle{200};
constexpr milliseconds kReportsSettle{300};
constexpr seconds kFlush{1};
constexpr seconds kLookAtRegistry{30};
constexpr seconds kReadAgain{2};
// How long to wait for the first lists before that is logged and the wait begins again.
constexpr seconds kSyncPatience{30};

// react(before, after, priority) for each change; what was there at the start is less urgent.
template <typename T, typename React>
void on_changes(kube::Store<T>& store, React react) {
  const auto handler = [react](kube::Priority priority) {
    return [react, priority](const std::string&, const auto& before, const auto& after) {
      react(before, after, priority);
    };
  };
  store.add_handlers(
      {.on_change = handler(kube::Priority::kLive), .on_start = handler(kube::Priority::kStart)});
}

}  // namespace

http::Response not_leading() {
  http::Response response;
  response.status = 503;
  response.body = api::error_body(
      {ErrorCode::kUnavailable, "this replica of the operator does not lead (yet); try again"});
  response.headers.emplace_back("Retry-After", "1");
  return response;
}

struct LeaderSession::Impl {
  Impl(LeaderParts given, LeaderOptions given_options)
      : parts(std::move(given)),
        options(std::move(given_options)),
        view(parts.stores),
        stats(static_cast<size_t>(parts.settings.limits.recent_pods), ledger),
        archive_client(parts.client),
        registry(archive_client, parts.settings.status_interval, parts.clock),
        traffic(parts.settings.limits.max_concurrent_loads, parts.clock),
        crashes(ledger),
        heard(parts.settings.agent),
        devices(resource_api(parts.client), parts.settings.device_drivers),
        auth(
            [this](const nlohmann::json& review) {
              return parts.client.create(kube::resources::kTokenReviews, review);
            },
            parts.settings.token_cache, parts.clock),
        saves(archive_client, locks, guard, parts.settings.limits.max_concurrent_saves, parts.clock,
              system_random()),
        status_writer(parts.client, parts.settings.status_interval, parts.clock) {}

  void run();
  bool wait_for_stores();
  Status prepare();
  Result<SweepEnvironment> find_environment();
  void make_controller(SweepEnvironment environment);
  void make_collector();
  void swept(const api::CompileCache& cache, WallTime time, int64_t bytes);
  void look_at_registry();
  [[nodiscard]] RegistryActivity registry_activity() const;
  [[nodiscard]] bool is_in_registry(const api::CompileCache& cache) const;
  void add_handlers();
  void start_reflectors();
  void enqueue(const std::string& ns, const std::string& cache, Duration delay,
               kube::Priority priority = kube::Priority::kLive);
  void claim_changed(const ClaimView& claim, kube::Priority priority);

  const LeaderParts parts;
  const LeaderOptions options;
  const ClusterView view;
  kube::Store<ClaimView> claims;
  SweepJobs jobs;
  PodLedger ledger;
  CacheStats stats;
  KubeArchiveClient archive_client;
  CacheLocks locks;
  SweepGuard guard;
  ArchiveRegistry registry;
  LoadTraffic traffic;
  CrashWatch crashes;
  HeardPods heard;
  DeviceReader devices;
  TokenAuth auth;
  SaveCoordinator saves;
  StatusWriter status_writer;
  kube::WorkQueue queue;
  std::optional<Sweeper> sweeper;
  std::optional<BreakerKeeper> breaker;
  std::optional<CompileCacheController> controller;
  std::optional<AgentApi> agent_api;
  std::optional<RegistryCollector> collector;  // where there is a registry
  Monotonic registry_looked{};
  std::atomic<bool> serving{false};

  std::optional<kube::Reflector<PodView>> pods, sweep_pods;
  std::optional<kube::Reflector<NodeView>> nodes;
  std::optional<kube::Reflector<api::CompileCacheArchive>> archives;
  std::optional<kube::Reflector<ClaimView>> claim_reflector;
  std::optional<kube::Reflector<SweepJob>> job_reflector;
  std::optional<kube::Reflector<Refusal>> refusals;
  std::optional<kube::Workers> workers;
  kube::Cancellation stopping;
  std::thread thread;
};

LeaderSession::LeaderSession(LeaderParts parts, LeaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(parts), std::move(options))) {}

LeaderSession::~LeaderSession() { stop(); }

void LeaderSession::start() {
  impl_->thread = std::thread([this] { impl_->run(); });
}

void LeaderSession::handle(http::Request request, http::Responder respond) {
  if (!impl_->serving) {
    respond(not_leading());
  } else {
    impl_->agent_api->handle(std::move(request), std::move(respond));
  }
}

void LeaderSession::registry_changed() {
  for (const auto& cache : impl_->view.caches()) impl_->queue.add(cache->metadata.key());
}

void LeaderSession::stop() {
  impl_->stopping.cancel();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->parts.metrics.set_queue_depth(nullptr);
  impl_->parts.metrics.set_caches(nullptr);
}

void LeaderSession::Impl::run() {
  add_handlers();
  start_reflectors();
  // The new leader writes caBundle at once: until it is right no pod is injected.
  if (auto kept = parts.certificates.round(); !kept) {
    log_warn("keeping certificates", {{"error", kept.error().message}});
  }
  while (!wait_for_stores()) {
    if (stopping.cancelled()) return;
    log_warn("still waiting for the first lists from the API server");
  }
  while (true) {
    auto ready = prepare();
    if (ready) break;
    log_error("starting to lead", {{"error", ready.error().message}});
    if (stopping.wait_for(kReadAgain)) return;
  }
  log_info("leading", {{"caches", std::to_string(parts.stores.caches.size())},
                       {"pods", std::to_string(parts.stores.pods.size())}});
  while (!stopping.wait_for(kFlush)) {
    if (!parts.is_leader()) continue;
    registry.flush();
    look_at_registry();
  }

  serving = false;
  workers->stop();
  agent_api->stop();
  registry.flush(true);
  status_writer.flush_immediately();
  for (const auto& [key, cache] : parts.stores.caches.snapshot()) {
    if (auto done = controller->reconcile(key); !done) {
      log_warn("last status before leaving", {{"cache", key}, {"error", done.error().message}});
    }
  }
}

Status LeaderSession::Impl::prepare() {
  auto environment = find_environment();
  if (!environment) return unexpected(environment.error());
  if (!options.endpoint_address.empty()) {
    auto written = write_endpoint_slice(parts.client, options.ns, options.endpoint_address,
                                        options.endpoint_port);
    if (!written) return unexpected(written.error().with("telling agents where the leader is"));
  }
  make_controller(std::move(*environment));
  if (auto counted = controller->take_over(); !counted) return counted;
  agent_api->take_over();
  make_collector();
  for (const auto& cache : view.caches()) {
    if (api::is_not_asked(cache->status.conditions)) heard.take_over(cache->metadata.ns);
  }
  agent_api->start();
  serving = true;
  heard.begin();
  workers.emplace(
      "compilecaches", queue, [this](const std::string& key) { return controller->reconcile(key); },
      2);
  parts.metrics.set_queue_depth([this] { return static_cast<double>(queue.size()); });
  parts.metrics.set_caches([this] { return cache_gauges(view); });
  return {};
}

Result<SweepEnvironment> LeaderSession::Impl::find_environment() {
  SweepEnvironment environment;
  environment.image = options.image;
  auto kube_system =
      parts.client.get(kube::resources::kNamespaces, "", "kube-system", {.metadata_only = true});
  if (!kube_system) {
    return unexpected(
        kube_system.error().with("reading which cluster this is (kube-system's uid)"));
  }
  environment.cluster_uid = kube_system->at("metadata").value("uid", "");
  environment.agent_address = parts.settings.agent.address;
  if (environment.agent_address.empty()) {
    auto address = agent_service_address(parts.client, options.ns);
    if (!address) return unexpected(address.error());
    environment.agent_address = *address;
  }
  environment.agent_port = parts.settings.agent.port;
  environment.agent_name = std::string(api::kAgentService) + "." + options.ns + ".svc";
  environment.proxy = options.proxy;
  environment.agent_ca = [this] { return parts.certificates.served().bundle; };
  return environment;
}

void LeaderSession::Impl::make_controller(SweepEnvironment environment) {
  sweeper.emplace(parts.client, parts.settings, std::move(environment), view, jobs, parts.metrics,
                  parts.clock, system_random());
  breaker.emplace(parts.client, parts.settings, view, ledger, *sweeper, parts.events,
                  options.replace_stuck_pods, parts.clock);
  controller.emplace(
      ControllerParts{parts.client, parts.settings, parts.stores, view, claims, parts.invalid,
                      stats, crashes, registry, *sweeper, *breaker, heard, status_writer,
                      parts.events, parts.metrics, parts.is_leader,
                      [this](const std::string& ns, const std::string& archive) {
                        return saves.is_saving(ns, archive);
                      }},
      parts.clock);
  AgentApiHooks hooks;
  hooks.is_leader = parts.is_leader;
  hooks.spoke = [this](const PodView& pod) { heard.spoke(pod); };
  hooks.fetch_pod = [this](const std::string& ns, const std::string& name) -> Result<PodView> {
    auto object = parts.client.get(kube::resources::kPods, ns, name);
    if (!object) return unexpected(object.error());
    return parse_pod(*object);
  };
  hooks.devices = [this](const PodView& pod, const std::string& node) {
    return devices.read(pod, node);
  };
  hooks.sweep_wanted = [this](const std::string& ns, const std::string& cache) {
    sweeper->ask(kube::object_key(ns, cache));
    enqueue(ns, cache, Duration::zero());
  };
  hooks.sweep_reported = [this](const PodView& pod, const api::SweepRequest& request) {
    if (request.phase != api::SweepPhase::kEnd) return;
    sweeper->reported(kube::object_key(pod.ns, request.cache), pod.owner ? pod.owner->uid : "",
                      request.storage_error, request.storage_trouble);
    enqueue(pod.ns, request.cache, Duration::zero());
    if (const auto cache = view.cache(pod.ns, request.cache)) {
      swept(*cache, parts.clock.wall(), request.freed_bytes);
    }
  };
  agent_api.emplace(
      AgentApiParts{view, auth, saves, locks, guard, archive_client, registry, traffic, crashes,
                    stats, ledger, parts.metrics, parts.events, parts.minter},
      parts.settings, std::move(hooks), parts.clock);
}

// What sweeps deleted before us is in the statuses.
void LeaderSession::Impl::make_collector() {
  if (parts.registry == nullptr) return;
  const Settings::Registry& rules = parts.settings.registry;
  collector.emplace(*parts.registry,
                    RollRules{rules.collect_above, rules.collect_interval, rules.quiet_for},
                    parts.clock);
  for (const auto& cache : view.caches()) {
    const api::LastSweep& last = cache->status.last_sweep;
    if (const auto time = parse_time(last.time)) swept(*cache, *time, last.freed_bytes);
  }
}

bool LeaderSession::Impl::is_in_registry(const api::CompileCache& cache) const {
  const auto store = view.store_of(cache);
  return store && store->registry() != nullptr && store->registry()->own;
}

void LeaderSession::Impl::swept(const api::CompileCache& cache, WallTime time, int64_t bytes) {
  if (!collector || bytes <= 0 || !is_in_registry(cache)) return;
  collector->deleted(time, static_cast<uint64_t>(bytes));
}

RegistryActivity LeaderSession::Impl::registry_activity() const {
  RegistryActivity activity;
  for (const auto& cache : view.caches()) {
    if (!is_in_registry(*cache)) continue;
    for (const auto& archive : view.archives_of(cache->metadata.ns, cache->metadata.name)) {
      if (saves.is_saving(archive->metadata.ns, archive->metadata.name)) ++activity.saves;
      const auto saved = parse_time(archive->head.saved_at);
      if (saved && (!activity.last_save || *saved > *activity.last_save)) {
        activity.last_save = *saved;
      }
    }
  }
  return activity;
}

void LeaderSession::Impl::look_at_registry() {
  const Monotonic now = parts.clock.monotonic();
  if (!collector || now - registry_looked < kLookAtRegistry) return;
  registry_looked = now;
  if (auto looked = collector->look(registry_activity()); !looked) {
    log_warn("collecting the registry's garbage", {{"error", looked.error().message}});
  }
}

void LeaderSession::Impl::enqueue(const std::string& ns, const std::string& cache, Duration delay,
                                  kube::Priority priority) {
  const std::string key = kube::object_key(ns, cache);
  if (delay > Duration::zero()) {
    queue.add_after(key, delay, priority);
  } else {
    queue.add(key, priority);
  }
}

void LeaderSession::Impl::add_handlers() {
  ledger.on_end([this](const std::string& ns, const std::string& uid) {
    heard.gone(ns, uid);
    traffic.gone(uid);
    devices.gone(uid);
  });
  stats.on_change([this](const std::string& cache) { queue.add_after(cache, kReportsSettle); });
  on_changes(parts.stores.caches, [this](const auto& before, const auto& after, auto priority) {
    queue.add((after ? after : before)->metadata.key(), priority);
  });
  heard.on_change([this](const std::string& ns) {
    for (const auto& cache : parts.stores.caches.list(ns)) queue.add(cache->metadata.key());
  });
  parts.invalid.set_handler([this](const std::string& key) { queue.add(key); });
  on_changes(parts.stores.archives, [this](const auto& before, const auto& after, auto priority) {
    const auto& archive = after ? after : before;
    if (!after) crashes.forget(archive->metadata.key());
    enqueue(archive->metadata.ns, archive->cache, kArchivesSettle, priority);
  });
  on_changes(parts.stores.pods, [this](const auto& before, const auto& after, auto priority) {
    const auto& pod = after ? after : before;
    crashes.seen({pod->uid, pod->name, pod->ends()});
    heard.seen(*pod, parts.clock.monotonic());
    if (!after) ledger.end(pod->ns, pod->uid);
    enqueue(pod->ns, pod->cache, kPodsSettle, priority);
  });
  on_changes(parts.stores.sweep_pods, [this](const auto& before, const auto& after, auto priority) {
    const auto& pod = after ? after : before;
    enqueue(pod->ns, pod->sweep, kPodsSettle, priority);
  });
  on_changes(jobs.store, [this](const auto& before, const auto& after, auto priority) {
    const auto& job = after ? after : before;
    enqueue(job->ns, job->cache, Duration::zero(), priority);
  });
  on_changes(parts.stores.refusals, [this](const auto& before, const auto& after, auto priority) {
    const auto& refusal = after ? after : before;
    if (!places_in(refusal->message).may_be_ours()) return;
    for (const auto& cache : parts.stores.caches.list(refusal->ns)) {
      queue.add(cache->metadata.key(), priority);
    }
  });
  on_changes(claims, [this](const auto& before, const auto& after, auto priority) {
    claim_changed(after ? *after : *before, priority);
  });
}

void LeaderSession::Impl::claim_changed(const ClaimView& claim, kube::Priority priority) {
  for (const auto& cache :
       parts.stores.caches_by_claim.list(kube::object_key(claim.ns, claim.name))) {
    queue.add(cache->metadata.key(), priority);
  }
}

void LeaderSession::Impl::start_reflectors() {
  const kube::Client& client = parts.client;
  const Clock& clock = parts.clock;
  auto labelled = [](const char* label) {
    return kube::ReflectorOptions{.resource = kube::resources::kPods,
                                  .label_selector = label,
                                  .fields = pod_fields(),
                                  .protobuf = &kube::protobuf::kPod};
  };
  pods.emplace(client, labelled(api::kCacheLabel), parse_pod, parts.stores.pods, clock);
  sweep_pods.emplace(client, labelled(api::kSweepLabel), parse_pod, parts.stores.sweep_pods, clock);
  nodes.emplace(
      client,
      kube::ReflectorOptions{
          .resource = kube::resources::kNodes, .fields = node_fields(), .metadata_only = true},
      [this](const nlohmann::json& node) { return parse_node(node, parts.settings.node_labels); },
      parts.stores.nodes, clock);
  archives.emplace(client, kube::ReflectorOptions{.resource = resources::kCompileCacheArchives},
                   api::parse_archive, parts.stores.archives, clock);
  claim_reflector.emplace(
      client,
      kube::ReflectorOptions{.resource = kube::resources::kPersistentVolumeClaims,
                             .fields = claim_fields()},
      parse_claim, claims, clock);
  job_reflector.emplace(client,
                        kube::ReflectorOptions{.resource = kube::resources::kJobs,
                                               .label_selector = api::kSweepLabel},
                        parse_sweep_job, jobs.store, clock);
  refusals.emplace(client,
                   kube::ReflectorOptions{.resource = kube::resources::kEvents,
                                          .field_selector = "reason=FailedCreate",
                                          .fields = refusal_fields()},
                   parse_refusal, parts.stores.refusals, clock);
  pods->start();
  sweep_pods->start();
  nodes->start();
  archives->start();
  claim_reflector->start();
  job_reflector->start();
  refusals->start();
}

bool LeaderSession::Impl::wait_for_stores() {
  return kube::wait_for_sync(
      {[this] { return parts.stores.caches.has_synced(); },
       [this] { return parts.stores.pods.has_synced(); },
       [this] { return parts.stores.sweep_pods.has_synced(); },
       [this] { return parts.stores.nodes.has_synced(); },
       [this] { return parts.stores.archives.has_synced(); },
       [this] { return claims.has_synced(); }, [this] { return jobs.store.has_synced(); },
       [this] { return parts.stores.refusals.has_synced(); }},
      kSyncPatience, stopping);
}

}  // namespace compilecache::controller
