#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/time_format.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/agents/agent_endpoint.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/caches/compile_cache_controller.hpp"
#include "operator/caches/conditions.hpp"
#include "operator/certificates/certificate_keeper.hpp"
#include "operator/versions.hpp"
#include "tests/support/fake_apiserver.hpp"

// What the controllers write to an API server, seen in one that is in this process.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::FakeApiServer;

constexpr char kCaches[] = "/apis/compilecache.dev/v1alpha1/compilecaches";
constexpr char kArchives[] = "/apis/compilecache.dev/v1alpha1/compilecachearchives";
constexpr char kJobs[] = "/apis/batch/v1/jobs";
constexpr char kSecrets[] = "/api/v1/secrets";

kube::Client client_of(const FakeApiServer& server) {
  kube::Config config;
  config.server = server.url();
  return kube::Client(*kube::make_transport(config));
}

struct Events : kube::EventSink {
  void record(const kube::EventRecord& record) override { records.push_back(record); }
  std::vector<kube::EventRecord> records;
};

// One CompileCache "ml/transformer" on the claim "ml/caches", and all that its controller needs.
class ControlTest : public ::testing::Test {
 protected:
  ControlTest() {
    settings.frameworks["torch"] = {};
    server.put("/api/v1/namespaces", {{"metadata", {{"name", "ml"}}}});
    server.put("/api/v1/persistentvolumes", {{"metadata", {{"name", "pv-1"}}}});
    put_cache({});
  }

  // The API server's and the store's.
  void put_cache(json spec) {
    spec["storage"]["claimName"] = "caches";
    spec["frameworks"] = {"torch"};
    const json object = server.put(
        kCaches, {{"metadata", {{"name", "transformer"}, {"namespace", "ml"}, {"generation", 1}}},
                  {"spec", spec}});
    see_cache(object);
  }
  void see_cache(const json& object) {
    stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(
                                               api::parse_compile_cache(object).value()));
  }
  void put_claim(std::string phase = "Bound") {
    claims.upsert("ml/caches",
                  std::make_shared<const Claim>(Claim{.ns = "ml",
                                                      .name = "caches",
                                                      .uid = "c-1",
                                                      .phase = std::move(phase),
                                                      .access_modes = {"ReadWriteMany"},
                                                      .volume_name = "pv-1"}));
  }
  void put_archive(const std::string& name, hours unused) {
    const std::string then = format_time(clock.wall() - unused);
    const json object = server.put(
        kArchives,
        {{"metadata",
          {{"name", name}, {"namespace", "ml"}, {"labels", {{api::kCacheLabel, "transformer"}}}}},
         {"spec",
          {{"cache", "transformer"},
           {"cacheName", "transformer"},
           {"key", {{"GPUProduct", "H100"}}}}},
         {"status", json::object()}});
    api::CompileCacheArchive archive;
    archive.metadata = api::object_meta(object);
    archive.cache = "transformer";
    archive.cache_uid = server.objects(kCaches).at("ml/transformer").at("metadata").at("uid");
    archive.key["GPUProduct"] = "H100";
    archive.head.manifest_digest = "sha256:" + name;
    archive.head.compressed_bytes = 1000;
    archive.head.saved_at = then;
    archive.last_used_time = then;
    stores.archives.upsert("ml/" + name, std::make_shared<const api::CompileCacheArchive>(archive));
  }
  // Named by the key of a pod on a node with an H100.
  static std::string old_one() {
    return api::archive_name("transformer", {{"GPUProduct", "H100"}});
  }
  // What a reflector would do.
  void see_jobs() {
    std::vector<kube::Store<SweepJob>::Item> items;
    for (json job : all(kJobs)) {
      job["metadata"]["creationTimestamp"] = format_time(job_made);
      items.emplace_back("ml/" + job["metadata"]["name"].get<std::string>(),
                         std::make_shared<const SweepJob>(parse_sweep_job(job).value()));
    }
    jobs.replace(std::move(items));
  }
  std::vector<json> all(const char* collection) const {
    std::vector<json> found;
    for (const auto& [key, object] : server.objects(collection)) found.push_back(object);
    return found;
  }

  // As the agent API hears it from the pod of the only Job.
  void report(const std::string& error = {}) {
    sweeper.reported("ml/transformer", all(kJobs).at(0).at("metadata").at("uid"), error);
  }
  // What the Job controller and its pod make of the only Job.
  void set_job_status(const json& status) {
    json job = all(kJobs).at(0);
    job["status"] = status;
    server.put(kJobs, job);
    see_jobs();
  }
  void refuse_pods(const std::string& why) {
    const json job = all(kJobs).at(0);
    server.put("/api/v1/events",
               {{"metadata", {{"name", "refused"}, {"namespace", "ml"}}},
                {"involvedObject", {{"kind", "Job"}, {"uid", job["metadata"]["uid"]}}},
                {"reason", "FailedCreate"},
                {"lastTimestamp", "2026-01-01T00:00:00Z"},
                {"message", why}});
  }
  bool runs_unprivileged(const json& job) const {
    return job["spec"]["template"]["spec"]["containers"][0]["securityContext"].contains(
        "runAsNonRoot");
  }

  Result<kube::Reconciled> reconcile() { return controller.reconcile("ml/transformer"); }
  // And the store sees what was written.
  void reconcile_and_see() {
    const auto done = reconcile();
    ASSERT_TRUE(done) << done.error().message;
    see_cache(server.objects(kCaches).at("ml/transformer"));
    see_jobs();
    clock.advance(seconds(10));
  }
  json condition(const std::string& type) const {
    const json cache = server.objects(kCaches).at("ml/transformer");
    for (const json& each : cache.at("status").at("conditions")) {
      if (each.at("type") == type) return each;
    }
    return nullptr;
  }
  size_t writes() const {
    size_t count = 0;
    for (const auto& request : server.requests()) count += request.method == "PATCH" ? 1 : 0;
    return count;
  }

  // The pod "web" runs and has loaded "old", which nobody has loaded since; "new" is newer.
  void a_pod_runs_with_an_old_archive() {
    put_claim();
    reconcile_and_see();
    put_archive("old", hours(900));
    put_archive("new", hours(1));
    PodView pod{
        .ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
    stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
    stats.loaded(
        "ml/transformer",
        {.pod = "web", .pod_uid = "u-1", .archive = "old", .load = api::LoadOutcome::kExact});
  }

  FakeApiServer server;
  FakeClock clock;
  WallTime job_made = clock.wall();
  Settings settings;
  ClusterStores stores;
  ClusterView view{stores};
  kube::Store<Claim> claims;
  kube::Store<SweepJob> jobs;
  InvalidCaches invalid;
  PodLedger pods;
  CacheStats stats{32, pods};
  Metrics metrics;
  Events events;
  std::string saving;  // the archive that somebody is saving
  bool leading = true;
  std::function<void()> on_judging = [] {};  // in the middle of it, what is in use
  kube::Client client = client_of(server);
  Sweeper sweeper{
      client,
      settings,
      {.image = "image:1", .agent_address = "10.0.0.1", .agent_ca = [] { return "PEM"; }},
      view,
      jobs,
      stores.sweep_pods,
      metrics,
      clock,
      seeded_random(1)};
  BreakerKeeper breaker{client, settings, view, pods, sweeper, events, false, clock};
  StatusWriter writer{client, settings.status_interval, clock};
  CrashWatch crashes{pods};
  KubeArchiveWriter archive_writer{client};
  ArchiveRegistry registry{archive_writer, settings.status_interval, clock};
  HeardPods heard{settings.agent};
  ControllerParts parts() {
    return {client,
            settings,
            stores,
            view,
            claims,
            invalid,
            stats,
            crashes,
            registry,
            sweeper,
            breaker,
            heard,
            writer,
            events,
            metrics,
            [this] { return leading; },
            [this](const std::string& ns, const std::string& archive) {
              on_judging();
              return ns == "ml" && saving == archive;
            }};
  }
  CompileCacheController controller{parts(), clock};
};

TEST_F(ControlTest, AMissingClaimIsToldInConditionsAndAnEvent) {
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("reason"), "ClaimNotFound");
  EXPECT_EQ(condition("Stalled").at("status"), "True");
  ASSERT_EQ(events.records.size(), 1u);
  EXPECT_EQ(events.records[0].reason, "ClaimNotFound");
  EXPECT_EQ(events.records[0].type, kube::EventType::kWarning);
  EXPECT_TRUE(all(kJobs).empty());
}

TEST_F(ControlTest, PodsThatAreNeverHeardOfAreToldInAConditionAndOneEvent) {
  put_claim();
  reconcile_and_see();
  report();
  heard.begin();
  for (const char* name : {"web-1", "web-2", "web-3"}) {
    PodView pod{.ns = "ml", .name = name, .uid = name, .cache = "transformer"};
    pod.injection = std::make_shared<const api::InjectionStatus>();
    pod.containers = std::make_shared<const std::vector<ContainerView>>(
        1, ContainerView{.name = api::kLoaderContainer, .ended_reason = "Completed"});
    heard.seen(pod, clock.monotonic());
  }
  const auto first = reconcile();
  ASSERT_TRUE(first);
  EXPECT_LE(first->again_after, settings.agent.unheard_after) << "they are looked at again in time";
  reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("status"), "False");
  EXPECT_EQ(condition("Ready").at("status"), "True");
  clock.advance(settings.agent.unheard_after);
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("reason"), "NotAsked");
  EXPECT_EQ(condition("Ready").at("status"), "False");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("web-1"), std::string::npos);
  EXPECT_EQ(std::count_if(events.records.begin(), events.records.end(),
                          [](const auto& event) {
                            return event.reason == "PodsUnheard" &&
                                   event.type == kube::EventType::kWarning;
                          }),
            2)
      << "of the condition and of Ready";
  heard.spoke({.ns = "ml", .name = "web-4", .uid = "web-4", .cache = "transformer"});
  for (const char* name : {"web-1", "web-2", "web-3"}) heard.gone("ml", name);
  reconcile_and_see();
  EXPECT_EQ(condition("PodsUnheard").at("status"), "False");
  EXPECT_EQ(condition("Ready").at("status"), "True");
}

TEST_F(ControlTest, AnArchiveThatMakesPodsCrashIsToldInItsStatusAndAnEvent) {
  const std::string manifest = "sha256:" + std::string(64, '2');
  const json object = server.put(
      kArchives, {{"metadata", {{"name", "transformer-1"}, {"namespace", "ml"}}},
                  {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", "H100"}}}}},
                  {"status",
                   {{"head", {{"manifestDigest", manifest}, {"generation", 2}}},
                    {"lastUsedTime", format_time(clock.wall())}}}});
  stores.archives.upsert("ml/transformer-1", std::make_shared<const api::CompileCacheArchive>(
                                                 api::parse_archive(object).value()));
  crashes.loaded("ml/transformer-1", manifest, "uid");
  for (int end = 1; end <= 3; ++end) crashes.seen({"uid", "web-1", {{"app", end, true}}});
  reconcile_and_see();
  const json condition = all(kArchives)[0].at("/status/conditions/0"_json_pointer);
  EXPECT_EQ(condition.at("type"), "Suspect");
  EXPECT_EQ(condition.at("reason"), "PodsCrashed");
  ASSERT_FALSE(events.records.empty());
  EXPECT_EQ(events.records[0].reason, "ArchiveSuspect");
  EXPECT_NE(events.records[0].message.find("web-1"), std::string::npos);
}

TEST_F(ControlTest, ASweepFollowsWhenAnArchiveMakesPodsCrash) {
  put_claim();
  reconcile_and_see();
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_TRUE(all(kJobs).empty());
  const std::string manifest = "sha256:" + std::string(64, '2');
  const json object = server.put(
      kArchives, {{"metadata", {{"name", "transformer-1"}, {"namespace", "ml"}}},
                  {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", "H100"}}}}},
                  {"status",
                   {{"head", {{"manifestDigest", manifest}, {"generation", 2}}},
                    {"lastUsedTime", format_time(clock.wall())}}}});
  stores.archives.upsert("ml/transformer-1", std::make_shared<const api::CompileCacheArchive>(
                                                 api::parse_archive(object).value()));
  crashes.loaded("ml/transformer-1", manifest, "uid");
  for (int end = 1; end <= 3; ++end) crashes.seen({"uid", "web-1", {{"app", end, true}}});
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the volume's index still names it";
}

TEST_F(ControlTest, WhatMadePodsCrashIsRememberedInTheStatusUntilItIsAcquitted) {
  const std::string manifest = "sha256:" + std::string(64, '2');
  put_archive("transformer-1", hours(1));
  api::CompileCacheArchive archive = *stores.archives.get("ml/transformer-1");
  archive.head.manifest_digest = manifest;
  mark_crashing(archive, manifest, {"web-1"}, format_time(clock.wall()));
  const auto show = [&] {
    stores.archives.upsert("ml/transformer-1",
                           std::make_shared<const api::CompileCacheArchive>(archive));
  };
  show();
  const auto remembered = [&] {
    reconcile_and_see();
    return server.objects(kCaches).at("ml/transformer").at("status").at("crashing");
  };
  EXPECT_EQ(remembered(), json::array({manifest}));
  clear_distrust(archive, format_time(clock.wall()));
  archive.head.manifest_digest = "sha256:" + std::string(64, '3');
  show();
  EXPECT_EQ(remembered(), json::array({manifest})) << "pods that loaded it may still run";
  crashes.loaded("ml/transformer-1", manifest, "with");
  for (const char* without : {"cold-1", "cold-2"}) {
    crashes.loaded("ml/transformer-1", "", without);
    crashes.seen({without, without, {{"app", 1, true}}});
  }
  EXPECT_EQ(remembered(), json::array()) << "pods crash without it as well";
}

TEST_F(ControlTest, AJobPreparesTheStoreAndItsReportMakesItReady) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_EQ(condition("Reconciling").at("reason"), "Preparing");
  json job = all(kJobs)[0];
  job["status"]["active"] = 1;
  server.put(kJobs, job);
  see_jobs();
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "one at a time";
  report();
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_EQ(events.records.back().reason, "Ready");
}

TEST_F(ControlTest, AConflictThatStaysIsTriedEverMoreRarely) {
  put_claim();
  json stale = server.objects(kCaches).at("ml/transformer");
  stale["metadata"]["resourceVersion"] = "1";
  json other = stale;
  other["metadata"].erase("resourceVersion");
  other["metadata"]["annotations"] = {{"by", "another"}};
  server.put(kCaches, other);
  see_cache(stale);  // and stays so: the watch is slow
  Duration last{0};
  for (int i = 0; i < 12; ++i) {
    const auto done = reconcile();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_GE(done->again_after, last);
    last = done->again_after;
  }
  EXPECT_EQ(last, seconds(30));
  EXPECT_FALSE(server.objects(kCaches).at("ml/transformer").contains("status"))
      << "nothing is written over what another has written";
  see_cache(server.objects(kCaches).at("ml/transformer"));
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(condition("Reconciling").at("status"), "True");
}

TEST_F(ControlTest, TheSeriesOfADeletedCompileCacheGo) {
  metrics.save("ml", "transformer", api::SaveOutcome::kCommitted);
  metrics.save("ml", "other", api::SaveOutcome::kCommitted);
  metrics.load({.ns = "ml",
                .cache = "transformer",
                .gpu_product = "H100",
                .outcome = api::LoadOutcome::kExact});
  reconcile_and_see();
  ASSERT_NE(metrics.text().find("cache=\"transformer\""), std::string::npos);
  stores.caches.erase("ml/transformer", nullptr);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(metrics.text().find("cache=\"transformer\""), std::string::npos) << metrics.text();
  EXPECT_NE(metrics.text().find("cache=\"other\""), std::string::npos);
  metrics.save("ml", "transformer", api::SaveOutcome::kCommitted);
  EXPECT_NE(metrics.text().find("cache=\"transformer\""), std::string::npos) << "made anew";
}

TEST_F(ControlTest, AVolumeThatCannotBeUsedIsSaidSo) {
  put_claim();
  reconcile_and_see();
  report("fsync: No space left on device");
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "StoreUnusable");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("No space left"),
            std::string::npos);
}

TEST_F(ControlTest, AJobWhosePodIsNotLetThroughIsReplacedByOneWithLess) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const json first = all(kJobs)[0];
  EXPECT_FALSE(runs_unprivileged(first));
  refuse_pods(R"(Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest")");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_NE(all(kJobs)[0]["metadata"]["name"], first["metadata"]["name"]);
  EXPECT_TRUE(runs_unprivileged(all(kJobs)[0]));
}

TEST_F(ControlTest, AJobWhosePodIsLateIsWaitedFor) {
  put_claim();
  reconcile_and_see();
  const json first = all(kJobs).at(0);
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_EQ(all(kJobs)[0]["metadata"]["name"], first["metadata"]["name"]);
  EXPECT_EQ(condition("Ready").at("reason"), "CannotPrepare");
  refuse_pods(R"(Error creating: pods "x" is forbidden: exceeded quota: q)");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u) << "with less it would not do either";
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("exceeded quota"),
            std::string::npos);
}

TEST_F(ControlTest, AnotherPodSecurityLevelIsTriedAnew) {
  put_claim();
  reconcile_and_see();
  refuse_pods("violates PodSecurity");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_TRUE(runs_unprivileged(all(kJobs).at(0)));
  report();
  set_job_status({{"conditions", {{{"type", "Complete"}, {"status", "True"}}}}});
  server.put(
      "/api/v1/namespaces",
      {{"metadata",
        {{"name", "ml"}, {"labels", {{"pod-security.kubernetes.io/enforce", "baseline"}}}}}});
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  sweeper.ask("ml/transformer");
  reconcile_and_see();
  EXPECT_FALSE(runs_unprivileged(all(kJobs).at(0)));
}

TEST_F(ControlTest, AVolumeThatCannotBeUsedUnprivilegedIsTriedWithMoreAgain) {
  put_claim();
  reconcile_and_see();
  refuse_pods("violates PodSecurity");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_TRUE(runs_unprivileged(all(kJobs).at(0)));
  report("mkdir: Permission denied");
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  server.erase("/api/v1/events", "ml", "refused");
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_FALSE(runs_unprivileged(all(kJobs).at(0)));
}

// Of the API server and of ours.
class ClocksApart : public ControlTest, public ::testing::WithParamInterface<hours> {};

TEST_P(ClocksApart, ASweepAndAProbeEndWell) {
  job_made = clock.wall() + GetParam();
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const int64_t probe = sweeper.probe("ml/transformer", "");
  set_job_status({{"active", 1}});
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "one at a time";
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kPending)
      << "it began before";
  report();
  set_job_status({{"conditions", {{{"type", "Complete"}, {"status", "True"}}}}});
  const std::string first = all(kJobs).at(0)["metadata"]["uid"];
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_EQ(metrics.text().find(R"(outcome="failed")"), std::string::npos) << metrics.text();
  ASSERT_EQ(all(kJobs).size(), 2u) << "the probe follows";
  for (const json& job : all(kJobs)) {
    const std::string uid = job["metadata"]["uid"];
    if (uid != first) sweeper.reported("ml/transformer", uid, "");
  }
  reconcile_and_see();
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kSucceeded);
}

INSTANTIATE_TEST_SUITE_P(AheadAndBehind, ClocksApart, ::testing::Values(hours(2), hours(-2)),
                         [](const auto& apart) { return apart.index == 0 ? "Ahead" : "Behind"; });

TEST_F(ControlTest, AProbeWhoseJobIsDeletedHasFailedAndIsMadeAgain) {
  put_claim();
  reconcile_and_see();
  report();
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  reconcile_and_see();
  const int64_t probe = sweeper.probe("ml/transformer", "node7");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kFailed);
  for (int i = 0; i < 3 && all(kJobs).empty(); ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u);
}

TEST_F(ControlTest, AReportBeforeTheControllerMetTheCacheCounts) {
  put_claim();
  sweeper.reported("ml/transformer", "uid-of-an-earlier-leaders-job", "");
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_TRUE(all(kJobs).empty());
}

TEST_F(ControlTest, ASweepFollowsWhenSomebodyDeletesAnArchive) {
  put_claim();
  reconcile_and_see();
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  put_archive("mine", hours(1));
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_TRUE(all(kJobs).empty());
  stores.archives.erase("ml/mine", nullptr);
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the volume's index still names it";
}

TEST_F(ControlTest, ASweepFollowsWhenAnArchiveWasDeletedWhileNobodyLed) {
  put_claim();
  reconcile_and_see();
  report();
  stats.swept("ml/transformer", {.time = format_time(clock.wall())});
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  for (const char* name : {"mine", "other"}) put_archive(name, hours(1));
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("archives"), 2);
  const auto jobs_of_a_new_leader = [&] {
    CompileCacheController next{parts(), clock};
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(next.reconcile("ml/transformer"));
      see_cache(server.objects(kCaches).at("ml/transformer"));
      see_jobs();
      clock.advance(seconds(10));
    }
    return all(kJobs).size();
  };
  EXPECT_EQ(jobs_of_a_new_leader(), 0u) << "nothing is gone";
  stores.archives.erase("ml/other", nullptr);
  EXPECT_EQ(jobs_of_a_new_leader(), 1u) << "the volume's index still names it";
}

TEST_F(ControlTest, StaleArchivesAreDeletedAndASweepFollows) {
  put_claim();
  reconcile_and_see();
  report();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  for (const json& job : all(kJobs)) {
    server.erase(kJobs, "ml", job["metadata"]["name"]);
  }
  see_jobs();
  reconcile_and_see();
  ASSERT_EQ(all(kArchives).size(), 1u);
  EXPECT_EQ(all(kArchives)[0]["metadata"]["name"], "new");
  EXPECT_EQ(std::count_if(events.records.begin(), events.records.end(),
                          [](const auto& event) { return event.reason == "ArchiveCollected"; }),
            1);
  stores.archives.erase("ml/old", nullptr);
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the blobs are swept before the interval is over";
  const json status = server.objects(kCaches).at("ml/transformer").at("status");
  EXPECT_EQ(status.at("archives"), 1);
  EXPECT_EQ(status.at("totalBytes"), 1000);
}

TEST_F(ControlTest, ArchivesOfACompileCacheThatIsGoneAreDeleted) {
  put_claim();
  json cache = server.objects(kCaches).at("ml/transformer");
  const auto put = [&](const char* name, const std::string& owner, const std::string& made) {
    json object{{"metadata",
                 {{"name", name}, {"namespace", "ml"}, {"creationTimestamp", made}, {"uid", name}}},
                {"spec", {{"cache", "transformer"}, {"key", {{"GPUProduct", name}}}}},
                {"status", {{"lastUsedTime", format_time(clock.wall())}}}};
    if (!owner.empty()) {
      object["metadata"]["ownerReferences"] = {{{"kind", "CompileCache"}, {"uid", owner}}};
    }
    object = server.put(kArchives, object);
    object["metadata"]["creationTimestamp"] = made;
    stores.archives.upsert(
        std::string("ml/") + name,
        std::make_shared<const api::CompileCacheArchive>(api::parse_archive(object).value()));
  };
  const auto left = [&] {
    std::set<std::string> names;
    for (const json& archive : all(kArchives)) names.insert(archive["metadata"]["name"]);
    return names;
  };
  put("orphan", "", "2026-01-01T00:00:00Z");
  put("of-the-one-before", cache["metadata"]["uid"], "2026-01-01T00:00:00Z");
  // By an API server whose clock is ahead, or restored from a backup.
  put("of-it-too", cache["metadata"]["uid"], "2026-01-04T00:00:00Z");
  cache["metadata"].erase("resourceVersion");
  server.erase(kCaches, "ml", "transformer");
  cache = server.put(kCaches, cache);
  put("mine", cache["metadata"]["uid"], "2026-01-03T00:00:00Z");
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(left().size(), 4u) << "of the CompileCache that we see no more is there";
  see_cache(cache);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(left(), std::set<std::string>{"mine"});
}

TEST_F(ControlTest, AnArchiveIsOfTheCompileCacheThatItsSpecNamesWhateverItsLabels) {
  const auto put = [&](const char* name, const char* cache, const char* label) {
    server.put(kArchives,
               {{"metadata",
                 {{"name", name}, {"namespace", "ml"}, {"labels", {{api::kCacheLabel, label}}}}},
                {"spec", {{"cache", cache}, {"key", {{"GPUProduct", "H100"}}}}}});
  };
  put("relabelled", "transformer", "another");
  put("anothers", "another", "transformer");
  const auto archives = archive_writer.list("ml", "transformer");
  ASSERT_TRUE(archives);
  ASSERT_EQ(archives->size(), 1u);
  EXPECT_EQ(archives->at(0).metadata.name, "relabelled");
}

TEST_F(ControlTest, AnArchiveThatStaysInUseIsNotLookedAtEachSecond) {
  put_claim();
  reconcile_and_see();
  put_archive("old", hours(900));
  PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
  stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = "old", .load = api::LoadOutcome::kExact});
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  see_jobs();
  reconcile_and_see();
  const auto done = reconcile();
  ASSERT_TRUE(done);
  EXPECT_EQ(all(kArchives).size(), 1u);
  EXPECT_GT(done->again_after, seconds(60));
}

// Each of the signs alone keeps an archive that nobody has used for long.
TEST_F(ControlTest, WhatIsInUseStays) {
  put_claim();
  const auto left = [&](const std::string& why) {
    SCOPED_TRACE(why);
    put_archive("transformer-new", hours(1));
    reconcile();
    stores.archives.erase("ml/transformer-new", nullptr);
    return server.objects(kArchives).contains("ml/" + old_one());
  };
  const auto run_pod = [&](const std::string& phase) {
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->key_basis = {
        .parts = {"GPUProduct"}, .gpu_resource = "nvidia.com/gpu", .gpu_count = 1};
    PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .node = "n1", .phase = phase};
    pod.cache = "transformer";
    pod.injection = injection;
    stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  };
  put_archive(old_one(), hours(900));
  saving = old_one();
  EXPECT_TRUE(left("it is being saved"));
  saving.clear();

  run_pod("Running");
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = old_one(), .load = api::LoadOutcome::kExact});
  EXPECT_TRUE(left("a pod has loaded it"));
  api::CompileCache cache = *stores.caches.get("ml/transformer");
  stats.fill("ml/transformer", cache.status);
  stats.forget("ml/transformer");
  stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(cache));
  EXPECT_TRUE(left("as an earlier leader has heard"));
  cache.status.recent = {};
  stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(cache));
  stats.forget("ml/transformer");
  NodeView node{.name = "n1"};
  node.facts.gpu_product = "H100";
  stores.nodes.upsert("n1", std::make_shared<const NodeView>(node));
  EXPECT_TRUE(left("a pod of its key runs"));

  run_pod("Succeeded");
  EXPECT_FALSE(left("nothing")) << "the pod has ended";
}

// Such as of a leader that was deposed: a pod has loaded the archive meanwhile.
TEST_F(ControlTest, AnArchiveThatHasChangedSinceItWasSeenIsNotDeleted) {
  put_claim();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  json used = server.objects(kArchives).at("ml/old");
  used["metadata"].erase("resourceVersion");
  used["status"]["lastUsedTime"] = format_time(clock.wall());
  server.put(kArchives, used);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 2u);
}

TEST_F(ControlTest, AReplicaThatDoesNotLeadChangesNothing) {
  put_claim();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  leading = false;
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 2u);
  EXPECT_EQ(writes(), 0u);
  leading = true;
  on_judging = [this] { leading = false; };  // deposed in the middle
  (void)reconcile();
  EXPECT_EQ(all(kArchives).size(), 2u);
  leading = true;
  on_judging = [] {};
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kArchives).size(), 1u);
}

TEST_F(ControlTest, AnArchivesStatusIsWrittenOverNothingThatAnotherWrote) {
  put_archive("one", hours(1));
  const auto seen = archive_writer.get("ml", "one");
  ASSERT_TRUE(seen);
  api::CompileCacheArchive first = *seen, late = *seen;
  first.lock.fence = 2;
  late.lock.fence = 1;
  ASSERT_TRUE(archive_writer.update_status(first));
  const auto refused = archive_writer.update_status(late);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_EQ(archive_writer.get("ml", "one")->lock.fence, 2);
}

TEST_F(ControlTest, NothingIsDecidedWhileAnArchiveCannotBeRead) {
  put_archive("one", hours(1));
  json odd = server.objects(kArchives).at("ml/one");
  odd["metadata"]["name"] = "odd";
  odd["metadata"].erase("resourceVersion");
  odd["spec"].erase("cache");
  server.put(kArchives, odd);
  EXPECT_FALSE(archive_writer.list("ml", "transformer")) << "it may name blobs";
}

TEST_F(ControlTest, WhatARunningPodLoadedStays) {
  a_pod_runs_with_an_old_archive();
  reconcile_and_see();
  EXPECT_EQ(all(kArchives).size(), 2u);
}

// Longer ago than the status tells of.
TEST_F(ControlTest, WhatAPodLoadedLongAgoStaysWhileItRuns) {
  a_pod_runs_with_an_old_archive();
  for (int i = 0; i < 100; ++i) {
    stats.loaded("ml/transformer", {.pod = "other",
                                    .pod_uid = "other-" + std::to_string(i),
                                    .archive = "new",
                                    .load = api::LoadOutcome::kExact});
  }
  reconcile_and_see();
  EXPECT_EQ(all(kArchives).size(), 2u);
}

TEST_F(ControlTest, ACompileCacheThatIsMadeAnewBeginsItsCountsAnew) {
  put_claim();
  reconcile_and_see();
  const auto unchanged = [&] {
    clock.advance(settings.status_interval);
    reconcile_and_see();
    const json status = server.objects(kCaches).at("ml/transformer").at("status");
    return status.value("/saves/unchanged"_json_pointer, 0);
  };
  stats.saved("ml/transformer", api::SaveOutcome::kUnchanged, "");
  EXPECT_EQ(unchanged(), 1);
  server.erase(kCaches, "ml", "transformer");
  put_cache({});
  EXPECT_EQ(unchanged(), 0) << "the one before was deleted unseen";
}

TEST_F(ControlTest, WhatAFailedFirstSaveLeavesGoesThoughItsPodRuns) {
  put_claim();
  reconcile_and_see();
  put_archive("blank", hours(1));
  auto blank = *stores.archives.get("ml/blank");
  blank.head = {};
  stores.archives.upsert("ml/blank", std::make_shared<const api::CompileCacheArchive>(blank));
  PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
  stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  stats.loaded(
      "ml/transformer",
      {.pod = "web", .pod_uid = "u-1", .archive = "blank", .load = api::LoadOutcome::kExact});
  const size_t jobs_before = all(kJobs).size();
  reconcile_and_see();
  EXPECT_TRUE(all(kArchives).empty());
  EXPECT_EQ(all(kJobs).size(), jobs_before) << "there are no blobs to sweep";
}

TEST_F(ControlTest, AThousandReportsAreOneWrite) {
  put_claim();
  reconcile_and_see();
  const size_t before = writes();
  for (int i = 0; i < 1000; ++i) {
    stats.saved("ml/transformer", api::SaveOutcome::kUnchanged, "");
    const auto done = reconcile();
    ASSERT_TRUE(done);
    see_cache(server.objects(kCaches).at("ml/transformer"));
    EXPECT_GE(done->again_after.count(), 0);
  }
  EXPECT_EQ(writes() - before, 1u);
  clock.advance(settings.status_interval);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(writes() - before, 2u);
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("saves").at("unchanged"),
            1000);
}

TEST_F(ControlTest, ANewLeaderCountsOnAlsoWhenItsStoreLagsBehind) {
  put_claim();
  json last = server.objects(kCaches).at("ml/transformer");
  last["status"]["loads"]["exact"] = 7;  // written by the leader before; our store does not know
  server.put(kCaches, last);
  ASSERT_TRUE(controller.take_over());
  stats.loaded("ml/transformer",
               {.pod = "web-1", .pod_uid = "u-1", .load = api::LoadOutcome::kExact});
  reconcile();
  see_cache(server.objects(kCaches).at("ml/transformer"));
  clock.advance(settings.status_interval);
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("loads").at("exact"), 8);
}

TEST_F(ControlTest, EveryKubeletIsAskedFor) {
  for (int i = 0; i < 1001; ++i) {
    server.put("/api/v1/nodes", {{"metadata", {{"name", "n" + std::to_string(i)}}},
                                 {"status", {{"nodeInfo", {{"kubeletVersion", "v1.35.4"}}}}}});
  }
  server.put("/api/v1/nodes", {{"metadata", {{"name", "old"}}},
                               {"status", {{"nodeInfo", {{"kubeletVersion", "v1.29.0"}}}}}});
  server.put("/api/v1/nodes", {{"metadata", {{"name", "silent"}}}});
  const auto kubelets = read_kubelets(client_of(server));
  ASSERT_TRUE(kubelets);
  EXPECT_EQ(kubelets->size(), 1003U);
  const auto old = too_old(*kubelets);
  ASSERT_EQ(old.size(), 1U);
  EXPECT_EQ(old[0].node, "old");
}

TEST_F(ControlTest, NothingIsWrittenWhenNothingChanged) {
  reconcile_and_see();
  const size_t before = writes();
  reconcile_and_see();
  reconcile_and_see();
  EXPECT_EQ(writes(), before);
}

TEST_F(ControlTest, ASpecThatCannotBeReadIsToldAndItsCountersStay) {
  json object = server.objects(kCaches).at("ml/transformer");
  object["spec"]["load"]["timeout"] = "soon";
  object["status"]["loads"]["exact"] = 7;
  object = server.put(kCaches, object);
  EXPECT_FALSE(invalid.parse(object));
  ASSERT_TRUE(reconcile());
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("spec.load.timeout"),
            std::string::npos);
  EXPECT_EQ(condition("Stalled").at("status"), "True");
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("loads").at("exact"), 7);
}

class KeeperTest : public ::testing::Test {
 protected:
  CertificateKeeper keeper(bool leads) {
    return {client_of(server), {.ns = "system"}, [leads] { return leads; }, clock};
  }
  FakeApiServer server;
  FakeClock clock;
};

TEST_F(KeeperTest, WhoComesFirstMakesThemAndAllServeThem) {
  CertificateKeeper first = keeper(true), second = keeper(false);
  ASSERT_TRUE(first.prepare());
  ASSERT_TRUE(second.prepare());
  EXPECT_NE(first.current().leaf.key, "");
  EXPECT_EQ(first.current().leaf.key, second.current().leaf.key);
  EXPECT_EQ(server.objects(kSecrets).size(), 1u);
}

TEST_F(KeeperTest, TheLeaderRenewsAndTheOthersFollow) {
  CertificateKeeper leader = keeper(true), follower = keeper(false);
  int changes = 0;
  follower.on_change([&](const ServedCertificate&) { ++changes; });
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(follower.prepare());
  const std::string before = leader.current().leaf.certificate;
  clock.advance(hours(24 * 61));
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(follower.current().leaf.certificate, before) << "only the leader rotates";
  ASSERT_TRUE(leader.round());
  EXPECT_NE(leader.current().leaf.certificate, before);
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(follower.current().leaf.certificate, leader.current().leaf.certificate);
  EXPECT_EQ(changes, 2);
}

// Readiness waits for it: a pod created right after would not be injected.
TEST_F(KeeperTest, AReplicaIsTrustedWhenCaBundleHasTheAuthority) {
  constexpr char kConfigurations[] =
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
  const auto configuration = [](const std::string& bundle) {
    return json{{"metadata", {{"name", "compilecache"}}},
                {"webhooks",
                 {{{"name", "pods.compilecache.dev"},
                   {"clientConfig",
                    {{"service", {{"name", "compilecache-webhook"}, {"namespace", "system"}}},
                     {"caBundle", base64_encode(bundle)}}}}}}};
  };
  server.put(kConfigurations, configuration("of another"));
  CertificateKeeper follower = keeper(false);
  ASSERT_TRUE(follower.prepare());
  ASSERT_TRUE(follower.round());
  EXPECT_FALSE(follower.trusted());
  server.put(kConfigurations, configuration(follower.current().bundle()));
  ASSERT_TRUE(follower.round());
  EXPECT_TRUE(follower.trusted());
  // Who is ready stays so: the leader repairs it.
  server.put(kConfigurations, configuration(""));
  ASSERT_TRUE(follower.round());
  EXPECT_TRUE(follower.trusted());
}

// An API server trusts what caBundle says, so nobody may serve what it does not yet have.
TEST_F(KeeperTest, ANewAuthorityDoesNotSignWhileTheBundleCannotBeWritten) {
  constexpr char kConfigurations[] =
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
  CertificateKeeper leader = keeper(true);
  ASSERT_TRUE(leader.prepare());
  const std::string first = leader.current().ca.certificate;
  clock.advance(hours(24 * (3650 - 80)));
  ASSERT_TRUE(leader.round()) << "the next authority is made known";
  ASSERT_FALSE(leader.current().next_ca.empty());
  clock.advance(hours(1));
  // Something of ours is there, but may not be written.
  server.put(kConfigurations,
             {{"metadata", {{"name", "compilecache"}}},
              {"webhooks",
               {{{"name", "pods.compilecache.dev"},
                 {"clientConfig",
                  {{"service", {{"name", "compilecache-webhook"}, {"namespace", "system"}}}}}}}}});
  const auto forbid = [](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (request.method != "PATCH") return false;
    connection.reply(403, testing::fake_status(403, "Forbidden", "no"));
    return true;
  };
  server.script(forbid);
  server.script(forbid);
  EXPECT_FALSE(leader.round());
  EXPECT_EQ(leader.current().ca.certificate, first);
  EXPECT_EQ(server.scripts_left(), 0U);
}

TEST(CaBundle, IsPatchedWhereItIsOursAndDiffers) {
  auto webhook = [](const char* name, const char* service, const std::string& bundle) {
    return json{
        {"name", name},
        {"clientConfig",
         {{"service", {{"name", service}, {"namespace", "system"}}}, {"caBundle", bundle}}}};
  };
  const std::string good = base64_encode("PEM");
  json configuration = {
      {"webhooks",
       {webhook("other", "other", ""), webhook("ours", "compilecache-webhook", ""),
        webhook("right", "compilecache-webhook", good)}}};
  const json patch = bundle_patch(configuration, "system", "PEM");
  configuration = configuration.patch(patch);
  EXPECT_EQ(configuration["webhooks"][0]["clientConfig"]["caBundle"], "");
  EXPECT_EQ(configuration["webhooks"][1]["clientConfig"]["caBundle"], good);
  EXPECT_TRUE(bundle_patch(configuration, "system", "PEM").empty());
}

TEST(AgentEndpoint, IsCreatedThenMovesToTheNewLeader) {
  FakeApiServer server;
  const kube::Client client = client_of(server);
  ASSERT_TRUE(write_endpoint_slice(client, "system", "10.0.0.1", 9444));
  ASSERT_TRUE(write_endpoint_slice(client, "system", "10.0.0.2", 9444));
  const auto slices = server.objects("/apis/discovery.k8s.io/v1/endpointslices");
  ASSERT_EQ(slices.size(), 1u);
  const json& slice = slices.begin()->second;
  EXPECT_EQ(slice["endpoints"][0]["addresses"], json::array({"10.0.0.2"}));
  EXPECT_EQ(slice["metadata"]["labels"]["kubernetes.io/service-name"], "compilecache-agent-api");
  EXPECT_EQ(endpoint_slice("system", "fd00::1", 9444)["addressType"], "IPv6");
}

}  // namespace
}  // namespace compilecache::controller
