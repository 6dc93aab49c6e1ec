// The examples in the headers of operator/, word for word (tests/support/header_examples.py). They
// are compiled and never run.

#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/time_format.hpp"
#include "http/server.hpp"
#include "kube/leader_election.hpp"
#include "kube/worker.hpp"
#include "operator/access_review.hpp"
#include "operator/agents/agent_answers.hpp"
#include "operator/agents/agent_api.hpp"
#include "operator/agents/agent_routes.hpp"
#include "operator/agents/agent_services.hpp"
#include "operator/agents/caller.hpp"
#include "operator/agents/caller_allowance.hpp"
#include "operator/agents/device_reader.hpp"
#include "operator/agents/effect_service.hpp"
#include "operator/agents/fair_queue.hpp"
#include "operator/agents/file_owner.hpp"
#include "operator/agents/follower_loads.hpp"
#include "operator/agents/fresh_archives.hpp"
#include "operator/agents/group_answers.hpp"
#include "operator/agents/heard_load.hpp"
#include "operator/agents/load_decision.hpp"
#include "operator/agents/load_desk.hpp"
#include "operator/agents/load_service.hpp"
#include "operator/agents/load_situation.hpp"
#include "operator/agents/registry_token_service.hpp"
#include "operator/agents/request_pool.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/agents/save_service.hpp"
#include "operator/agents/sweep_service.hpp"
#include "operator/agents/sweep_wishes.hpp"
#include "operator/agents/token_auth.hpp"
#include "operator/agents/token_verdicts.hpp"
#include "operator/archives/adoption.hpp"
#include "operator/archives/archive_client.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/archives/collection_planner.hpp"
#include "operator/archives/crash_watch.hpp"
#include "operator/archives/fair_places.hpp"
#include "operator/archives/rank_records.hpp"
#include "operator/archives/save_coordinator.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/breaker/breaker.hpp"
#include "operator/breaker/breaker_keeper.hpp"
#include "operator/breaker/event_sightings.hpp"
#include "operator/breaker/pod_troubles.hpp"
#include "operator/breaker/replacement.hpp"
#include "operator/breaker/startup_diagnosis.hpp"
#include "operator/caches/cache_stats.hpp"
#include "operator/caches/compile_cache_controller.hpp"
#include "operator/caches/counters_backup.hpp"
#include "operator/caches/heard_pods.hpp"
#include "operator/caches/status_decision.hpp"
#include "operator/caches/status_writer.hpp"
#include "operator/certificates/certificate_files.hpp"
#include "operator/certificates/certificate_keeper.hpp"
#include "operator/certificates/certificate_source.hpp"
#include "operator/certificates/certificates.hpp"
#include "operator/cluster/agent_service.hpp"
#include "operator/cluster/claimed_devices.hpp"
#include "operator/cluster/cluster_view.hpp"
#include "operator/cluster/cluster_watch.hpp"
#include "operator/cluster/known.hpp"
#include "operator/cluster/own_registry.hpp"
#include "operator/cluster/pod_group.hpp"
#include "operator/cluster/refusals.hpp"
#include "operator/cluster/resource_api.hpp"
#include "operator/follower_session.hpp"
#include "operator/leader_session.hpp"
#include "operator/metrics_access.hpp"
#include "operator/pending_reviews.hpp"
#include "operator/pods/pod_ledger.hpp"
#include "operator/registry/collection_roll.hpp"
#include "operator/registry/es256.hpp"
#include "operator/registry/own_repositories.hpp"
#include "operator/registry/registry_audit.hpp"
#include "operator/registry/registry_collector.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "operator/registry/registry_quota.hpp"
#include "operator/registry/registry_restart.hpp"
#include "operator/registry/registry_tokens.hpp"
#include "operator/registry/registry_usage.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_claims.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/registry/token_scope.hpp"
#include "operator/registry_access.hpp"
#include "operator/registry_care.hpp"
#include "operator/review_path.hpp"
#include "operator/review_pool.hpp"
#include "operator/service_locator.hpp"
#include "operator/settings/settings.hpp"
#include "operator/storage/storage_check.hpp"
#include "operator/storage/sweeper.hpp"
#include "operator/webhook_service.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace compilecache::controller::examples {

using CachePtr = std::shared_ptr<const api::CompileCache>;

inline void claimed_devices(const api::KeyBasis& basis, const Settings& settings,
                            const nlohmann::json& pod,
                            const std::function<nlohmann::json(const std::string&)>& claim_named,
                            const std::vector<nlohmann::json>& slices) {
  ClaimedDevices devices{.wanted = basis.claims.value(), .drivers = settings.device_drivers};
  for (const auto& [in_pod, name] : claims_of_pod(pod))
    devices.claims[in_pod] = allocated_devices(claim_named(name));
  for (const json& slice : slices) add_slice(slice, devices.published);
  Result<api::DeviceFacts> facts = device_facts(devices);
}

inline void device_reader(const kube::Client& client, const Settings& settings,
                          const std::shared_ptr<const PodView>& pod, const std::string& node) {
  DeviceReader reader(resource_api(client), settings.device_drivers);
  auto facts = reader.read(*pod, node);
  reader.gone(pod->uid);
}

inline void resource_api_watch(const kube::Client& client, WebhookService& webhook) {
  ClaimsWatch claims(client);
  if (claims.look()) webhook.set_resource_claims(claims.served());
}

inline void agent_api(const AgentApiParts& parts, const Settings& settings,
                      const AgentApiHooks& hooks, const Clock& clock,
                      const http::ServerOptions& options) {
  AgentApi agent_api(parts, settings, hooks, clock);
  agent_api.start();
  auto server = http::Server::start(options, [&](auto request, auto respond) {
    agent_api.handle(std::move(request), std::move(respond));
  });
  agent_api.stop();
}

inline Status caller_allowance(const Clock& clock, std::string_view peer, std::string_view token,
                               Status (*too_many)(),
                               Status (*ask_the_api_server)(std::string_view)) {
  CallerAllowance allowance(clock);
  if (!allowance.take(peer)) return too_many();
  auto identity = ask_the_api_server(token);
  if (identity) allowance.give_back(peer);
  return identity;
}

inline bool fair_queue(const std::string& sender, std::function<void()> task) {
  using Task = std::function<void()>;
  FairQueue<Task> queue({.most = 4096, .most_of_one = 256, .at_once_of_one = 4});
  if (queue.push(sender, std::move(task)) != FairQueue<Task>::Pushed::kYes) return false;
  if (auto next = queue.pop()) {
    next->work();
    queue.done(next->sender);
  }
  return true;
}

inline void load_decision(const api::KeyBasis& basis, const api::NodeFacts& node) {
  LoadSituation situation{.cache = "transformer", .key = make_key(basis, node), .archives = {}};
  api::LoadAnswer answer = decide_load(situation);
}

inline void agent_routes(AgentServices& services, const Caller& caller, const std::string& body) {
  const RouteMatch match = find_route("POST", "/v1/saves/transformer-1.17/commit");
  if (match.route != nullptr) match.route->serve(services, caller, match.id, body);
}

inline void agent_services(const AgentApiParts& parts, const Settings& settings,
                           const AgentApiHooks& hooks, const Clock& clock, const std::string& token,
                           const std::string& peer, const api::LoadRequest& request) {
  AgentServices services(parts, settings, hooks, clock);
  services.take_over();
  const auto caller = services.callers.identify(token, peer);
  auto answer = services.loads.load(*caller, request);
}

inline Result<Caller> callers(const ClusterView& view, TokenAuth& auth,
                              const std::string& bearer_token, const std::string& peer) {
  const Callers callers(view, auth, {});
  const Result<Caller> caller = callers.identify(bearer_token, peer);
  return caller;
}

inline void effect_service(const EffectService::Parts& parts, const Caller& caller) {
  EffectService effects(parts);
  effects.effect(caller, {.cache = "transformer", .effect = api::Effect::kFull});
}

inline bool group_answers(const Clock& clock, const std::string& archive, const PodView& pod,
                          const std::string& name, const std::string& manifest) {
  GroupAnswers answers(clock);
  if (const auto given = answers.given(archive, pod)) return true;
  const auto now_given = answers.give(archive, pod, {name, manifest});
  return now_given.manifest == manifest;
}

inline void heard_load(const ClusterView& view, const Caller& caller,
                       const api::LoadedReport& report, const Clock& clock, CacheStats& stats,
                       CrashWatch& crashes, Metrics& metrics, ArchiveRegistry& registry,
                       kube::EventSink& events) {
  const HeardLoad heard = hear_load(view, caller, report, clock.wall());
  for (const LoadSink& sink : load_sinks(view, stats, crashes, metrics, registry, events))
    sink(caller, heard);
}

inline void load_service(const LoadService::Parts& parts, const Caller& caller,
                         const std::vector<LoadSink>& (*load_sinks)()) {
  LoadService loads(parts, load_sinks());
  Result<api::LoadAnswer> answer = loads.load(caller, {.cache = "transformer"});
}

inline std::string save_contexts(const ClusterView& view, const CrashWatch& crashes,
                                 const CacheStats& stats, const Caller& caller,
                                 const api::ArchiveKey& key) {
  const SaveContexts contexts(view, crashes, stats);
  const std::string why_not = refusal(contexts.of(caller, key));
  return why_not;
}

inline void save_service(const SaveService::Parts& parts, const Caller& caller) {
  SaveService saves(parts);
  Result<api::SaveAnswer> answer = saves.request(caller, {.cache = "transformer"});
}

inline void sweep_service(const SweepService::Parts& parts, const Caller& caller) {
  SweepService sweeps(parts);
  Result<api::SweepAnswer> answer = sweeps.sweep(caller, {.phase = api::SweepPhase::kBegin});
}

inline void sweep_wishes(const ClusterView& view, ArchiveRegistry& registry,
                         const SweepWishes::Wanted& sweep_wanted, const Caller& caller,
                         const std::string& digest) {
  SweepWishes wishes(view, registry, sweep_wanted);
  wishes.distrust(caller, "transformer-3f9a1c04b2", digest);
}

inline bool token_auth(const kube::Client& client, const Settings& settings, const Clock& clock,
                       std::string_view bearer_token, std::string_view peer) {
  TokenAuth auth(
      [&](const auto& review) { return client.create(kube::resources::kTokenReviews, review); },
      settings.token_cache, clock);
  auto identity = auth.identify(bearer_token, peer);
  if (!identity) return false;
  return true;
}

inline Status token_verdicts(const Clock& clock, std::string_view token,
                             Status (*ask_the_api_server)(std::string_view)) {
  constexpr std::chrono::seconds kBelieveYes{60}, kBelieveNo{10};
  TokenVerdicts<Status> verdicts(1'000, clock);
  if (const auto known = verdicts.find(token)) return *known;
  const Status verdict = ask_the_api_server(token);
  verdicts.remember(token, verdict, verdict ? kBelieveYes : kBelieveNo);
  return verdict;
}

inline void adoption(const api::CompileCache& cache, const std::optional<api::StoreRef>& store,
                     const api::FoundArchive& found, const Clock& clock) {
  auto archive = adopted_archive(cache, store, found, clock.wall());
}

inline void archive_client(ArchiveClient& archives, const std::string& digest,
                           const std::string& pod, const std::string& now) {
  auto archive = modify_archive(archives, "ml", "transformer-3f9a1c04b2",
                                [&](auto& a) { return mark_suspect(a, digest, pod, now); });
}

inline void archive_registry(ArchiveClient& archives, const Settings& settings, const Clock& clock,
                             const std::string& digest) {
  ArchiveRegistry registry(archives, settings.status_interval, clock);
  registry.loaded("ml", "transformer-3f9a1c04b2", api::Match::kExact);
  registry.flush();
  registry.suspect("ml", "transformer-3f9a1c04b2", digest, "web-1");
}

inline std::string collection(const std::vector<api::CompileCacheArchive>& archives,
                              const api::CompileCacheSpec& spec,
                              const std::set<std::string>& in_use, const Clock& clock) {
  std::string names;
  auto plan = plan_collection(archives, spec.retention, in_use, clock.wall());
  for (const StaleArchive& stale : plan) names += stale.name;
  return names;
}

inline size_t crash_watch(const std::string& manifest, const std::string& pod_uid,
                          const std::shared_ptr<const PodView>& pod, Monotonic now) {
  size_t blamed = 0;
  PodLedger pods;
  CrashWatch crashes(pods);
  crashes.loaded("ml/transformer-3f9a1c04b2", manifest, pod_uid);
  crashes.seen({pod->uid, pod->name, pod->ends()});
  crashes.look("ml/transformer-3f9a1c04b2", now);
  for (const Blame& blame : crashes.blame("ml/transformer-3f9a1c04b2")) blamed += blame.pods.size();
  return blamed;
}

inline void save_coordinator(ArchiveClient& archives, CacheLocks& locks, const SweepGuard& guard,
                             const Clock& clock, const Random& random, const SaveContext& context,
                             const api::SaveRequest& request, const std::string& ns,
                             const std::string& pod_uid, const api::CommitRequest& commit,
                             std::chrono::milliseconds lock_timeout) {
  SaveCoordinator saves(archives, locks, guard, 50, clock, random);
  auto answer = saves.request(context, request);
  saves.renew(ns, pod_uid, answer->id, answer->fence, lock_timeout);
  auto head = saves.commit(context, answer->id, commit);
}

inline void sweep_guard(SweepGuard& guard, const std::vector<std::string>& deletable,
                        const std::vector<SaveInFlight>& saves_in_flight,
                        const std::string& digest) {
  guard.begins("ml/transformer", deletable, saves_in_flight);
  guard.refuses("ml/transformer", {"transformer-3f9a1c04b2", 17}, digest);
  guard.ends("ml/transformer", saves_in_flight);
}

inline void breaker(PodTroubles& troubles, const std::vector<PodLook>& pods,
                    const std::map<std::string, std::string>& failed_mounts,
                    const BreakerState& before, const Settings::Breaker& rules, WallTime now) {
  const StuckPods seen = troubles.evaluate(pods, failed_mounts, now);
  const BreakerVerdict verdict = judge_breaker(before, {.seen = seen, .nodes = 3}, rules, now);
}

inline void breaker_keeper(const kube::Client& client, const Settings& settings,
                           const ClusterView& view, PodLedger& pods, Sweeper& sweeper,
                           kube::EventSink& events, const Clock& clock, const CachePtr& cache,
                           const StorageFacts& storage_facts, int64_t generation, WallTime now,
                           api::CompileCacheStatus& status) {
  const Settings::Breaker& rules = settings.breaker;
  BreakerKeeper keeper(client, settings, view, pods, sweeper, events, false, clock);
  const BreakerSight sight = keeper.gather(*cache, storage_facts);
  const BreakerVerdict verdict = judge_breaker(sight.before, sight.input, rules, now);
  write_breaker(verdict.state, generation, format_time(now), status);
  const Duration again = keeper.act(*cache, sight, verdict);
}

inline StatusDecision status_decision(const api::CompileCache& cache, const StorageVerdict& verdict,
                                      const ClusterView& view, const std::string& ns,
                                      const std::string& name, const Settings& settings) {
  StatusInput seen{.cache = cache, .counted = cache.status, .storage = verdict};
  seen.archives = view.archives_of(ns, name);
  const StatusDecision decided = decide_status(seen, settings.breaker);
  return decided;
}

struct SeenEvent {
  std::string name, version;
};
inline int event_sightings(const std::vector<SeenEvent>& events, EventSightings& sightings,
                           const Clock& clock) {
  int news = 0;
  for (const auto& event : events) {
    const auto& sight = sightings.see(event.name, event.version, clock.monotonic());
    if (sight.is_news) ++news;
  }
  sightings.end_round();
  return news;
}

inline void pod_troubles(const Settings& settings, PodLedger& ledger,
                         const api::CompileCache& cache, const std::vector<PodLook>& pods,
                         const std::map<std::string, std::string>& failed_mounts, WallTime now) {
  PodTroubles troubles(settings.breaker, ledger);
  troubles.expect(cache.status.stuck_pods);
  const StuckPods seen = troubles.evaluate(pods, failed_mounts, now);
}

inline std::string startup_diagnosis(const PodView& pod, const SignRules& rules) {
  const VolumeSight volume{.claim = "caches", .volume = "pv-1", .bound = true};
  const PodSign sign = read_sign(pod, volume, rules);
  if (sign.kind == PodSign::Kind::kTrouble) return sign.text;
  return "";
}

inline void cache_stats(const Settings& settings, kube::WorkQueue& queue, Duration interval,
                        const CachePtr& cache) {
  PodLedger pods;
  CacheStats stats(settings.limits.recent_pods, pods);
  stats.on_change([&](const std::string& key) { queue.add_after(key, interval); });
  stats.seed("ml/transformer", cache->status);
  stats.loaded("ml/transformer", {.pod = "web-1"});
  api::CompileCacheStatus status = cache->status;
  stats.fill("ml/transformer", status);
}

inline void controller(kube::WorkQueue& queue, CompileCacheController& controller) {
  kube::Workers workers("compilecaches", queue,
                        [&](const std::string& key) { return controller.reconcile(key); });
}

inline Status counters_backup(const kube::Client& client, CacheStats& stats) {
  if (auto read = seed_counters(client, stats); !read) return read;
  return {};
}

inline void heard_pods(const Settings& settings, const PodView& pod, Monotonic now) {
  HeardPods heard(settings.agent);
  heard.begin();
  heard.seen(pod, now);
  heard.spoke(pod);
  heard.moved(false, now);
  const Silence silence = heard.silence("ml", "transformer", now);
  if (silence.turned) heard.announce("ml");
}

inline std::string replacement(const StuckPods& seen, const std::set<std::string>& replaced,
                               const Settings::Breaker& rules) {
  const Replacement next = choose_replacement(seen, {.open = true, .replaced = replaced}, rules);
  if (next.pod != nullptr) return next.pod->uid;
  return "";
}

inline std::string pod_ledger(const std::string& manifest) {
  PodLedger ledger;
  ledger.edit<StartedPod>("uid-1", [&](StartedPod& pod) { pod.manifest = manifest; });
  if (const auto pod = ledger.find<StartedPod>("uid-1")) return pod->manifest;
  ledger.on_end([&](const std::string& ns, const std::string& uid) { (void)(ns + uid); });
  ledger.end("ml", "uid-1");
  return "";
}

inline Status status_writer(StatusWriter& writer, const api::CompileCache& cache,
                            const api::CompileCacheStatus& status, kube::WorkQueue& queue,
                            const std::string& key) {
  auto wait = writer.write(cache, status);
  if (!wait) return unexpected(wait.error());
  if (*wait > Duration::zero()) queue.add_after(key, *wait);
  return {};
}

inline void certificate_files() { CertificateFiles files("/etc/compilecache/certificates"); }

inline void certificate_keeper(const kube::Client& client, const std::string& ns,
                               const kube::LeaderElector& elector) {
  CertificateKeeper keeper(client, {.ns = ns}, [&] { return elector.is_leader(); });
}

inline int certificate_source(CertificateSource& source,
                              const std::unique_ptr<http::Server>& server,
                              int (*report)(const Error&)) {
  source.on_change(
      [&](const ServedCertificate& c) { server->set_certificate(c.leaf.certificate, c.leaf.key); });
  if (auto ready = source.prepare(); !ready) return report(ready.error());
  source.start();
  return 0;
}

inline void certificates(const std::vector<std::string>& names, WallTime now) {
  auto made = make_certificates(names, {}, now);
  Certificates certificates = *made;
  while (auto step = next_rotation(certificates, names, {}, now)) {
    certificates = *rotate(certificates, *step, names, {}, now);
  }
}

inline void cluster_view() {
  ClusterStores stores;
  ClusterView view(stores);
  auto pod = view.pod("ml", "web-1");
  auto facts = view.node(pod->node);
}

inline bool refusals(const nlohmann::json& event) {
  Refusal refusal = *parse_refusal(event);
  if (refusal.places.name_ours || refusal.places.are_among(0)) return true;
  return false;
}

inline void leader_session(const LeaderParts& parts, const std::string& ns,
                           const std::string& image, http::Request request,
                           http::Responder respond) {
  LeaderSession session(parts, {.ns = ns, .image = image});
  session.start();
  session.handle(std::move(request), std::move(respond));
  session.stop();
}

inline void metrics_access(const Metrics& metrics, const kube::Client& client, const Clock& clock,
                           http::Request request, http::Responder respond) {
  MetricsEndpoint endpoint(
      metrics,
      [&](const auto& resource, const auto& object) { return client.create(resource, object); },
      clock);
  endpoint.start();
  endpoint.handle(std::move(request), std::move(respond));
  endpoint.stop();
}

inline Result<bool> access_reviews(const kube::Client& client, const std::string& token) {
  auto identity = client.create(kube::resources::kTokenReviews, identity_review(token));
  auto review = access_review(*identity, "nonResourceAttributes", {{"path", "/metrics"}});
  auto answer = client.create(kube::resources::kSubjectAccessReviews, *review);
  Result<bool> may = parse_access_review(*answer);
  return may;
}

inline void registry_access(const TokenMinter& minter, const kube::Client& client,
                            const Clock& clock, http::Request request, http::Responder respond) {
  RegistryTokenEndpoint endpoint(
      minter,
      [&](const auto& resource, const auto& object) { return client.create(resource, object); },
      clock);
  endpoint.start();
  endpoint.handle(std::move(request), std::move(respond));
  endpoint.stop();
}

inline void registry_token_service(const ClusterView& view, const Settings& settings,
                                   const TokenMinter& minter, const RegistryUsage& usage,
                                   const Caller& caller) {
  RegistryTokenService registry({view, settings, &minter, &usage});
  Result<api::RegistryToken> token = registry.token(caller, {.push = true});
}

inline bool collection_roll(WallTime started, const std::vector<DeletedBytes>& deleted,
                            WallTime last_save, const Clock& clock, const RollRules& rules) {
  const RollFacts facts{.started = started,
                        .enough_since = enough_since(deleted, started, rules),
                        .saves = 0,
                        .last_save = last_save,
                        .now = clock.wall()};
  if (roll_is_due(facts, rules)) return true;
  return false;
}

inline void registry_collector(RegistryKeeper& keeper, const RollRules& rules, const Clock& clock,
                               WallTime sweep_time, const api::SweepRequest& request, size_t saves,
                               std::optional<WallTime> last_save) {
  RegistryCollector collector(keeper, rules, clock);
  collector.deleted(sweep_time, request.freed_bytes);
  collector.found_full();
  collector.look({.saves = saves, .last_save = last_save});
}

inline void es256(const KeyPair& leaf) {
  const Result<std::string> signature = sign_es256(leaf.key, "header.payload");
  const std::string text = base64url(*signature);
}

inline void registry_keeper(const kube::Client& client, const std::string& ns,
                            const RegistryKeeperParts& parts, const Clock& clock) {
  RegistryKeeper keeper(client, {.ns = ns, .name = "compilecache-registry"}, parts, clock);
  keeper.start();
}

inline bool registry_restart(const nlohmann::json& deployment, const nlohmann::json& reader,
                             const std::string& mounted, const Clock& clock) {
  const RestartFacts facts = restart_facts(deployment, reader, mounted, clock.wall());
  if (next_restart_step(facts) == RestartStep::kStartReader) return true;
  return false;
}

inline void registry_quota(const api::CompileCache& cache, const ClusterView& view,
                           const RegistryUsage& usage, uint64_t namespace_share, TokenFacts& facts,
                           StorageFacts& storage) {
  const auto full = over_quota(cache, registry_use(view, cache, &usage), namespace_share);
  if (full) facts.over_quota = full->reason;
  if (full) storage.over_quota = full->message;
}

inline void registry_usage() {
  RegistryUsage usage;
  usage.found("ml/llama", 8'004'241);
  usage.committed("ml/llama", 1'000);
  usage.audited({"ml/llama"});
  usage.of_namespace("ml");
}

inline void own_repositories(const OwnRegistryAccess& access) {
  OwnRepositories repositories(access);
  for (const std::string& name : *repositories.list()) {
    const auto use = repositories.use(name);
  }
}

inline uint64_t registry_audit(const OwnRepositories& repositories, const ClusterView& view,
                               const kube::Client& client, RegistryUsage& usage,
                               const Clock& clock) {
  RegistryAudit audit({.repositories = repositories,
                       .view = view,
                       .client = client,
                       .usage = usage,
                       .ns = "compilecache-system"},
                      clock);
  audit.round();
  return audit.health().unreadable;
}

inline void registry_care(RegistryCareParts parts, WallTime now, const api::SweepRequest& report,
                          const Clock& clock) {
  RegistryCare care(std::move(parts), clock);
  care.start();
  care.swept(now, report.freed_bytes);
  care.trouble("ml/llama").reason;
}

inline void registry_tokens(const api::RegistryTokenRequest& request, const TokenMinter& minter,
                            const std::string& pod) {
  const TokenGrant grant = grant_token({.push = request.push, .may_not_save = "mode_read_only"});
  minter.mint(pod, {{own_repository("ml", "transformer"), grant.actions}});
}

inline void token_authority(WallTime now, bool registry_knows) {
  auto authority = *make_token_authority({}, now);
  while (auto step = next_authority_step(authority, {}, registry_knows, now)) {
    authority = *rotate_authority(authority, *step, {}, now);
  }
  auto leaf = make_token_leaf(authority, {}, now);
}

inline void token_claims(const Clock& clock, const KeyPair& leaf) {
  const TokenClaims claims{.subject = "ml/web-1",
                           .id = "9f...",
                           .issued = clock.wall(),
                           .access = {{"ml/transformer", {"pull"}}}};
  const Result<std::string> token = sign_token(claims, leaf);
}

inline Status token_minter(const Clock& clock, const TokenAuthority& authority) {
  TokenMinter minter(clock, system_random());
  if (auto ready = minter.use(authority); !ready) return unexpected(ready.error());
  Result<MintedToken> token = minter.mint("ml/web-1", {{"ml/transformer", {"pull"}}});
  return {};
}

inline void token_scope(const http::Request& request) {
  const std::vector<TokenScope> scopes = requested_scopes(request.query);
}

inline void review_path(const kube::Client& client, const std::string& ns,
                        const kube::LeaderElector& elector, const Clock& clock,
                        WebhookService& webhook) {
  ReviewPathKeeper keeper(
      client, {.ns = ns}, [&] { return elector.is_leader(); }, clock);
  webhook.set_review_path([&] { return keeper.path(); });
  keeper.start();
}

inline bool review_pool(const Clock& clock, bool is_large, const http::Request& request,
                        const http::Responder& respond,
                        http::Response (*answer)(const http::Request&)) {
  ReviewPool pool(4, clock);
  pool.start();
  if (!pool.add(is_large, [=] { respond(answer(request)); })) return false;
  pool.stop();
  return true;
}

inline int settings() {
  auto settings = load_settings("/etc/compilecache/settings.yaml");
  if (!settings) {
    std::cerr << settings.error().message;
    return 2;
  }
  return 0;
}

inline http::Response agent_answers(const http::Request& request, AgentServices& services,
                                    const Caller& caller) {
  RouteMatch call;
  if (auto refused = find_call(request, call); refused.status != 0) return refused;
  return response_of(call.route->serve(services, caller, call.id, request.body));
}

inline void request_pool(http::Request request, http::Responder respond,
                         const std::function<http::Response(const http::Request&)>& answer) {
  RequestPool pool(8, [&](const http::Request& asked) { return answer(asked); });
  pool.start();
  pool.handle(std::move(request), std::move(respond));
  pool.stop();  // finishes what it has begun
}

inline int load_situations(const Caller& caller, const api::LoadRequest& request,
                           const ClusterView& view, const Settings& settings,
                           LoadTraffic& traffic) {
  if (Status ok = check_load(caller, request); !ok) return 1;
  LoadSituation situation = load_situation(view, settings, caller, request);
  api::LoadAnswer answer = decide_load(situation);
  const bool loads = answer.decision == api::LoadDecision::kLoad;
  if (loads && !take_place(traffic, caller, answer, situation)) return 2;
  return 0;
}

inline int fresh_archives(ArchiveClient& client,
                          const std::function<std::optional<Monotonic>()>& heard,
                          const Caller& caller, LoadSituation& situation, api::LoadAnswer& answer,
                          const Clock& clock) {
  const FreshArchives fresh({client, heard, FreshArchives::Ask::kAlways}, clock);
  if (Status ok = fresh.confirm(caller, situation, answer); !ok) return 1;  // ask somebody else
  return 0;
}

inline void follower_loads(const ClusterView& view, const Settings& settings, LoadTraffic& traffic,
                           const FreshArchives& fresh, const TokenMinter& minter,
                           const Caller& caller, const api::LoadRequest& request) {
  FollowerServices services{FollowerLoads({view, settings, traffic, fresh}),
                            FollowerTokens({view, settings, &minter, nullptr})};
  Result<api::LoadAnswer> answer = services.loads.load(caller, request);
}

inline void load_desk(const LoadDeskParts& parts, const Settings& settings, const Clock& clock,
                      http::Request request, http::Responder respond) {
  LoadDesk desk(parts, settings, clock);
  desk.start();
  desk.handle(std::move(request), std::move(respond));  // 503: ask the leader
  desk.stop();
}

inline void follower_session(const kube::Client& client, const Settings& settings,
                             ClusterStores& stores, const ClusterWatch& watch, const Clock& clock,
                             const TokenMinter& minter, http::Request request,
                             http::Responder respond) {
  FollowerSession follower({client, settings, stores, watch, clock, &minter});
  follower.start();
  follower.handle(std::move(request), std::move(respond));
  follower.stop();
}

inline void cluster_watch(const kube::Client& client, const Settings& settings,
                          ClusterStores& stores, const Clock& clock) {
  ClusterWatch watch(client, settings.node_labels, stores, clock);
  watch.start();
  if (watch.has_synced()) return;
  watch.stop();
}

inline void agent_service(const kube::Client& client) {
  AgentService known;
  const auto found = find_agent_service(client, "compilecache-system");
  if (found) known = known.then(*found);
}

inline void known(const api::OwnRegistry& found,
                  const std::function<void(const api::OwnRegistry&)>& tell) {
  Known<api::OwnRegistry> registry;
  if (registry.set(found)) tell(found);
}

inline void own_registry(const kube::Client& client) {
  const auto found = find_own_registry(client, "compilecache-system");
  if (found && found->installed()) return;
}

inline void service_locator(const kube::Client& client, const std::string& ns) {
  ServiceLocator locator(client, ns,
                         {[&](const api::OwnRegistry& found) { found.installed(); },
                          [&](const AgentService& found) { found.trouble.empty(); }});
  if (Status looked = locator.look(); !looked) return;
  locator.start();
}

inline void ranks(api::CompileCacheArchive& archive, const nlohmann::json& labels) {
  note_ranks("worker-index=1", "uid-1", {"vllm/torch_compile_cache/AB/rank_4_0"}, archive.ranks);
  own_ranks("worker-index=1", archive.ranks);
  const std::string group = pod_group(labels).id;
  const std::string place = pod_group(labels).member;
}

inline void storage_check(const api::CompileCache& cache, const api::StoreRef& store,
                          const ClaimView& claim, const VolumeView& volume) {
  StorageFacts facts{.store = store, .claim = claim, .volume = volume, .prepared = true};
  StorageVerdict verdict = check_storage(cache.spec.storage, facts);
}

inline void sweeper(Sweeper& sweeper, const CachePtr& cache, const std::string& key,
                    const std::string& job_uid, const ClaimView& claim, StorageFacts& facts) {
  sweeper.take_over(*cache);
  sweeper.reported(key, job_uid, "");
  sweeper.ask(key);
  auto again = sweeper.reconcile(*cache, claim);
  sweeper.fill(key, facts);
}

inline void webhook_service(const kube::Client& client, const ClusterStores& stores,
                            const webhook::InjectionSettings& settings, kube::EventSink& events,
                            Metrics& metrics, const Clock& clock, http::Request request,
                            http::Responder respond) {
  WebhookService webhook(client, stores.caches, settings, events, metrics, clock);
  webhook.start();
  webhook.handle(std::move(request), std::move(respond));
}

inline bool file_owner(const nlohmann::json& pod) {
  if (can_own_files(pod, {"app"}, 0)) return true;
  return false;
}

inline void fair_places(const std::string& pod_uid, Monotonic now,
                        const std::function<void(Duration)>& ask_again_after) {
  FairPlaces places(50, seconds(2));
  const FairPlaces::Answer answer = places.take({"registry", "ml"}, pod_uid, now, seconds(10));
  if (!answer.granted) ask_again_after(answer.due);
  places.leave("registry", pod_uid);
}

inline void pending_reviews(const PendingReviews::IsDecided& is_decided, const Clock& clock,
                            Monotonic begin, const PendingReviews::Resume& answer) {
  PendingReviews pending(is_decided, clock);
  pending.start();
  if (!pending.hold("ml/llama", begin + seconds(1), answer)) answer();
}

}  // namespace compilecache::controller::examples

#pragma GCC diagnostic pop
