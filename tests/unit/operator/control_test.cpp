#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/time_format.hpp"
#include "kube/cpprest_transport.hpp"
#include "operator/agent_endpoint.hpp"
#include "operator/certificate_keeper.hpp"
#include "operator/compile_cache_controller.hpp"
#include "operator/conditions.hpp"
#include "operator/counters_backup.hpp"
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
    archive.key["GPUProduct"] = "H100";
    archive.head.manifest_digest = "sha256:" + name;
    archive.head.compressed_bytes = 1000;
    archive.head.saved_at = then;
    archive.last_used_time = then;
    stores.archives.upsert("ml/" + name, std::make_shared<const api::CompileCacheArchive>(archive));
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

  FakeApiServer server;
  FakeClock clock;
  WallTime job_made = clock.wall();
  Settings settings;
  ClusterStores stores;
  ClusterView view{stores};
  kube::Store<Claim> claims;
  kube::Store<SweepJob> jobs;
  InvalidCaches invalid;
  StatusBoard board{32};
  Metrics metrics;
  Events events;
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
  BreakerKeeper breaker{client, settings, view, sweeper, events, false, clock};
  StatusWriter writer{client, settings.status_interval, clock};
  CrashWatch crashes;
  KubeArchiveWriter archive_writer{client};
  ArchiveRegistry registry{archive_writer, settings.status_interval, clock};
  CompileCacheController controller{
      {client, settings, stores, view, claims, invalid, board, crashes, registry, sweeper, breaker,
       writer, events, metrics, [] { return true; },
       [](const std::string&, const std::string&) { return false; }},
      clock};
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
  crashes.seen({"uid", "web-1", 3});
  reconcile_and_see();
  const json condition = all(kArchives)[0].at("/status/conditions/0"_json_pointer);
  EXPECT_EQ(condition.at("type"), "Suspect");
  EXPECT_EQ(condition.at("reason"), "PodsCrashed");
  ASSERT_FALSE(events.records.empty());
  EXPECT_EQ(events.records[0].reason, "ArchiveSuspect");
  EXPECT_NE(events.records[0].message.find("web-1"), std::string::npos);
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
  sweeper.reported("ml/transformer", "");
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_EQ(events.records.back().reason, "Ready");
}

TEST_F(ControlTest, AVolumeThatCannotBeUsedIsSaidSo) {
  put_claim();
  reconcile_and_see();
  sweeper.reported("ml/transformer", "fsync: No space left on device");
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "StoreUnusable");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("No space left"),
            std::string::npos);
}

TEST_F(ControlTest, AJobWithoutAPodIsReplacedByOneWithLess) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const json first = all(kJobs)[0];
  reconcile_and_see();  // 10 s later
  reconcile_and_see();
  bool unprivileged = false;
  for (const json& job : all(kJobs)) {
    EXPECT_NE(job["metadata"]["name"], first["metadata"]["name"]);
    unprivileged |= job["spec"]["template"]["spec"]["containers"][0]["securityContext"].contains(
        "runAsNonRoot");
  }
  EXPECT_TRUE(unprivileged);
}

TEST_F(ControlTest, StaleArchivesAreDeletedAndASweepFollows) {
  put_claim();
  reconcile_and_see();
  sweeper.reported("ml/transformer", "");
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

TEST_F(ControlTest, WhatARunningPodLoadedStays) {
  put_claim();
  reconcile_and_see();
  put_archive("old", hours(900));
  put_archive("new", hours(1));
  PodView pod{.ns = "ml", .name = "web", .uid = "u-1", .phase = "Running", .cache = "transformer"};
  stores.pods.upsert("ml/web", std::make_shared<const PodView>(pod));
  board.loaded("ml/transformer",
               {.pod = "web", .pod_uid = "u-1", .archive = "old", .load = "exact"});
  reconcile_and_see();
  EXPECT_EQ(all(kArchives).size(), 2u);
}

TEST_F(ControlTest, AThousandReportsAreOneWrite) {
  put_claim();
  reconcile_and_see();
  const size_t before = writes();
  for (int i = 0; i < 1000; ++i) {
    board.saved("ml/transformer", SaveSeen::kUnchanged, "");
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
  ASSERT_TRUE(seed_counters(client_of(server), board));
  board.loaded("ml/transformer", {.pod = "web-1", .pod_uid = "u-1", .load = "exact"});
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

constexpr char kWebhooks[] = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

json configuration_with(const std::string& path) {
  json configuration = {{"metadata", {{"name", "compilecache"}}}, {"webhooks", json::array()}};
  json webhook = {{"name", "pods.compilecache.dev"}};
  json& service = webhook["clientConfig"]["service"];
  service = {{"name", "compilecache-webhook"}, {"namespace", "system"}};
  if (!path.empty()) service["path"] = path;
  configuration["webhooks"].push_back(std::move(webhook));
  return configuration;
}

// Whoever may read the configuration is an API server, or may do anything anyway.
TEST_F(KeeperTest, TheLeaderWritesAPathThatNobodyElseKnows) {
  server.put(kWebhooks, configuration_with(""));
  CertificateKeeper leader = keeper(true), follower = keeper(false);
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(follower.prepare());
  EXPECT_FALSE(follower.review_path().in_force);
  ASSERT_TRUE(leader.round());
  EXPECT_FALSE(leader.review_path().in_force) << "another API server may not have heard of it";
  clock.advance(std::chrono::seconds(5));
  ASSERT_TRUE(leader.round());
  const ReviewPath path = leader.review_path();
  EXPECT_TRUE(path.in_force);
  EXPECT_EQ(path.secret.size(), 32U);
  const auto written = [&] {
    return server.objects(kWebhooks).at("compilecache").at("webhooks")[0].at("clientConfig");
  };
  EXPECT_EQ(written().at("service").at("path"), "/mutate/" + path.secret);
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(follower.review_path().secret, path.secret);
  EXPECT_TRUE(follower.review_path().in_force);
  // It outlives the certificates.
  clock.advance(hours(24 * 61));
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(leader.review_path().secret, path.secret);
  EXPECT_TRUE(leader.review_path().in_force);
}

TEST_F(KeeperTest, APathThatSomebodyChoseStaysAndIsNoSecret) {
  server.put(kWebhooks, configuration_with("/mutate"));
  CertificateKeeper leader = keeper(true);
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(leader.round());
  EXPECT_FALSE(leader.review_path().in_force);
  EXPECT_EQ(server.objects(kWebhooks)
                .at("compilecache")
                .at("webhooks")[0]
                .at("clientConfig")
                .at("service")
                .at("path"),
            "/mutate");
}

TEST_F(KeeperTest, ASecretOfAnEarlierReleaseGetsItsPath) {
  CertificateKeeper first = keeper(true);
  ASSERT_TRUE(first.prepare());
  json secret = server.objects(kSecrets).begin()->second;
  secret["data"].erase("review-path");
  server.put(kSecrets, secret);
  CertificateKeeper second = keeper(false);
  ASSERT_TRUE(second.prepare());
  EXPECT_EQ(second.review_path().secret.size(), 32U);
  EXPECT_EQ(second.current().leaf.key, first.current().leaf.key);
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
