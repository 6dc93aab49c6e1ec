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
#include "kube/json.hpp"
#include "kube/reflector.hpp"
#include "kube/worker.hpp"
#include "kube/workqueue.hpp"
#include "operator/agents/agent_api.hpp"
#include "operator/agents/agent_endpoint.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/agents/device_reader.hpp"
#include "operator/agents/file_owner.hpp"
#include "operator/breaker/breaker_keeper.hpp"
#include "operator/caches/compile_cache_controller.hpp"
#include "operator/caches/status_writer.hpp"
#include "operator/cluster/pod_events.hpp"
#include "operator/follower_session.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/registry_care.hpp"
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
constexpr seconds kLookAtSlice{10};
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
        archive_reads(archive_reader(parts.client)),
        fresh({archive_reads, [this] { return parts.watch.archives_heard(); },
               FreshArchives::Ask::kWhenSilent},
              parts.clock),
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
  Status write_slice();
  Result<SweepEnvironment> find_environment();
  void make_controller(SweepEnvironment environment);
  void make_registry_care();
  void swept(const api::CompileCache& cache, WallTime time, int64_t bytes);
  void look_at_slice();
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
  KubeArchiveClient archive_client, archive_reads;
  FreshArchives fresh;
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
  std::optional<RegistryCare> care;  // where there is a registry
  Monotonic slice_looked{};
  std::atomic<bool> serving{false};

  std::optional<kube::Reflector<PodView>> sweep_pods;
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

bool LeaderSession::serving() const { return impl_->serving; }

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

// Pods that were made before have the address of then.
void LeaderSession::agent_service_changed() {
  impl_->heard.moved(impl_->view.agent_service().trouble.empty(), impl_->parts.clock.monotonic());
  for (const auto& cache : impl_->view.caches()) impl_->queue.add(cache->metadata.key());
}

void LeaderSession::stop() {
  impl_->stopping.cancel();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->parts.metrics.set_queue_depth(nullptr);
  impl_->parts.metrics.set_caches(nullptr);
  impl_->parts.metrics.set_registry(nullptr);
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
    look_at_slice();
  }

  serving = false;
  if (care) care->stop();
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
  if (auto written = write_slice(); !written) return written;
  make_registry_care();
  make_controller(std::move(*environment));
  if (auto counted = controller->take_over(); !counted) return counted;
  agent_api->take_over();
  for (const auto& cache : view.caches()) {
    const api::LastSweep& last = cache->status.last_sweep;
    if (const auto time = parse_time(last.time)) swept(*cache, *time, last.freed_bytes);
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
  if (care) {
    parts.metrics.set_registry([this] { return care->gauges(); });
    care->start();
  }
  return {};
}

Status LeaderSession::Impl::write_slice() {
  slice_looked = parts.clock.monotonic();
  if (options.endpoint_address.empty()) return {};
  auto written = write_endpoint_slice(parts.client, options.ns, options.endpoint_address,
                                      options.endpoint_port);
  if (!written) return unexpected(written.error().with("telling agents where the leader is"));
  return {};
}

// Somebody may have deleted it together with the Service.
void LeaderSession::Impl::look_at_slice() {
  if (parts.clock.monotonic() - slice_looked < kLookAtSlice) return;
  if (auto written = write_slice(); !written) {
    log_warn("looking whether agents find the leader", {{"error", written.error().message}});
  }
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
      ControllerParts{
          parts.client,
          parts.settings,
          parts.stores,
          view,
          claims,
          parts.invalid,
          stats,
          crashes,
          registry,
          *sweeper,
          *breaker,
          heard,
          status_writer,
          parts.events,
          parts.metrics,
          parts.is_leader,
          [this](const std::string& ns, const std::string& archive) {
            return saves.is_saving(ns, archive);
          },
          [this](const PodView& pod, const std::string& node) { return devices.read(pod, node); },
          care ? &care->usage() : nullptr,
          [this](const std::string& repository) {
            return care ? care->trouble(repository) : OwnRegistryTrouble{};
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
  hooks.is_sweep_job = [this](const std::string& cache, const std::string& job) {
    return sweeper->created(cache, job);
  };
  hooks.can_own_files = [this](const PodView& pod, int64_t user) -> Result<bool> {
    auto object = parts.client.get(kube::resources::kPods, pod.ns, pod.name);
    if (!object) return unexpected(object.error());
    return kube::string_at(*object, {"metadata", "uid"}) == pod.uid &&
           can_own_files(*object, pod.injection->containers, user);
  };
  hooks.sweep_wanted = [this](const std::string& ns, const std::string& cache) {
    sweeper->ask(kube::object_key(ns, cache));
    enqueue(ns, cache, Duration::zero());
  };
  hooks.sweep_reported = [this](const PodView& pod, const api::SweepRequest& request) {
    const bool failed = request.phase == api::SweepPhase::kFail;
    if (request.phase != api::SweepPhase::kEnd && !failed) return;
    const std::string key = kube::object_key(pod.ns, pod.sweep);
    const std::string job = pod.owner ? pod.owner->uid : "";
    if (request.storage_error.empty() && (failed || !request.sweep_error.empty())) {
      sweeper->reported_failure(key, job, cut(request.sweep_error, kMessageLength), failed);
    } else {
      sweeper->reported(key, job, cut(request.storage_error, kMessageLength),
                        request.storage_trouble);
    }
    enqueue(pod.ns, pod.sweep, Duration::zero());
    if (const auto cache = view.cache(pod.ns, pod.sweep)) {
      const bool full = request.storage_trouble == api::RegistryTrouble::kFull;
      if (care && full && is_in_registry(*cache)) care->room(true);
      swept(*cache, parts.clock.wall(), request.freed_bytes);
    }
  };
  if (care) hooks.registry_room = [this](bool full) { care->room(full); };
  agent_api.emplace(AgentApiParts{view, auth, saves, locks, guard, archive_client, registry,
                                  traffic, crashes, stats, ledger, parts.metrics, parts.events,
                                  parts.minter, care ? &care->usage() : nullptr,
                                  care ? &care->repositories() : nullptr, &fresh},
                    parts.settings, std::move(hooks), parts.clock);
}

void LeaderSession::Impl::make_registry_care() {
  if (parts.registry == nullptr) return;
  care.emplace(
      RegistryCareParts{.keeper = *parts.registry,
                        .minter = *parts.minter,
                        .client = parts.client,
                        .view = view,
                        .settings = parts.settings.registry,
                        .ns = options.ns,
                        .authorities = [this] { return parts.certificates.served().bundle; },
                        .activity = [this] { return registry_activity(); },
                        .is_leader = parts.is_leader,
                        .changed =
                            [this] {
                              for (const auto& cache : view.caches())
                                queue.add(cache->metadata.key());
                            }},
      parts.clock);
}

bool LeaderSession::Impl::is_in_registry(const api::CompileCache& cache) const {
  const auto store = view.store_of(cache);
  return store && store->registry() != nullptr && store->registry()->own;
}

void LeaderSession::Impl::swept(const api::CompileCache& cache, WallTime time, int64_t bytes) {
  if (!care || bytes <= 0 || !is_in_registry(cache)) return;
  care->swept(time, static_cast<uint64_t>(bytes));
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
    if (!after) crashes.forget(crash_group(*archive));
    enqueue(archive->metadata.ns, archive->cache, kArchivesSettle, priority);
  });
  on_changes(parts.stores.pods, [this](const auto& before, const auto& after, auto priority) {
    const auto& pod = after ? after : before;
    const Monotonic now = parts.clock.monotonic();
    crashes.seen({pod->uid, pod->name, pod->ends(), pod->runs(), pod->ready, now});
    if (!after || pod->ended()) crashes.gone(pod->uid, now);
    heard.seen(*pod, now);
    if (!after) ledger.end(pod->ns, pod->uid);
    // Those that were there when this replica began to lead have theirs.
    const bool is_new = !before && priority == kube::Priority::kLive;
    if (is_new && pod->injection && !pod->ended()) parts.events.record(injected_event(*pod));
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
    if (!refusal->places.may_be_ours()) return;
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
  sweep_pods.emplace(client, labelled_pods(api::kSweepLabel), parse_pod, parts.stores.sweep_pods,
                     clock);
  claim_reflector.emplace(
      client,
      kube::ReflectorOptions{.resource = kube::resources::kPersistentVolumeClaims,
                             .fields = claim_fields()},
      parse_claim, claims, clock);
  job_reflector.emplace(client,
                        kube::ReflectorOptions{.resource = kube::resources::kJobs,
                                               .label_selector = api::kSweepLabel,
                                               .fields = sweep_job_fields()},
                        parse_sweep_job, jobs.store, clock);
  refusals.emplace(client,
                   kube::ReflectorOptions{.resource = kube::resources::kEvents,
                                          .field_selector = "reason=FailedCreate",
                                          .fields = refusal_fields()},
                   parse_refusal, parts.stores.refusals, clock);
  sweep_pods->start();
  claim_reflector->start();
  job_reflector->start();
  refusals->start();
}

bool LeaderSession::Impl::wait_for_stores() {
  return kube::wait_for_sync(
      {[this] { return parts.stores.caches.has_synced(); },
       [this] { return parts.watch.has_synced(); },
       [this] { return parts.stores.sweep_pods.has_synced(); },
       [this] { return claims.has_synced(); }, [this] { return jobs.store.has_synced(); },
       [this] { return parts.stores.refusals.has_synced(); }},
      kSyncPatience, stopping);
}

}  // namespace compilecache::controller
