#include "operator/agent_api.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "base/time_format.hpp"
#include "operator/archive_trust.hpp"
#include "tests/unit/operator/fake_archives.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;
using test::digest;
using test::FakeArchives;

class Events : public kube::EventSink {
 public:
  void record(const kube::EventRecord& record) override { reasons.push_back(record.reason); }
  std::vector<std::string> reasons;
};

// One namespace with a node, a CompileCache and pods; tokens are the pods' names.
class AgentApiTest : public testing::Test {
 protected:
  AgentApiTest() {
    settings.sweep.grace = minutes(10);
    auto node = std::make_shared<NodeView>();
    node->name = "n1";
    node->facts = {"NVIDIA-H100-80GB-HBM3", "amd64", "", ""};
    stores.nodes.upsert("n1", node);
    cache.metadata.ns = "ml";
    cache.metadata.name = "transformer";
    cache.metadata.uid = "cache-uid";
    cache.spec.storage.claim_name = "claim";
    put_cache();
    // As the reflector would.
    archives.on_write = [this](const auto&, const auto& after) { show(after); };
    for (const char* name : {"a", "b", "c"}) add_pod(name);
    auto job = std::make_shared<PodView>();
    job->ns = "ml";
    job->name = "job";
    job->uid = "uid-job";
    job->sweep = "transformer";
    job->owner = std::make_shared<const OwnerView>(OwnerView{"batch/v1", "Job", "sweep-1", "j1"});
    stores.sweep_pods.upsert("ml/job", job);
  }

  void put_cache() {
    stores.caches.upsert("ml/transformer", std::make_shared<api::CompileCache>(cache));
  }
  void show(const api::CompileCacheArchive& archive) {
    stores.archives.upsert(archive.metadata.key(),
                           std::make_shared<api::CompileCacheArchive>(archive));
  }
  void add_pod(const std::string& name, const std::string& gpu = "nvidia.com/gpu") {
    auto pod = std::make_shared<PodView>();
    pod->ns = "ml";
    pod->name = name;
    pod->uid = "uid-" + name;
    pod->node = "n1";
    pod->phase = "Running";
    pod->cache = "transformer";
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->mode = mode;
    injection->wait_for_first_ms = wait_for_first.count();
    injection->key_basis = {
        .parts = cache.spec.key, .gpu_resource = gpu, .gpu_count = 1, .image = "torch:1"};
    pod->injection = std::move(injection);
    stores.pods.upsert("ml/" + name, pod);
  }

  http::Response send(const std::string& method, const std::string& path, const std::string& token,
                      const std::string& body = {}) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    if (!token.empty()) request.headers = {{"Authorization", "Bearer " + token}};
    return agent_api.answer(request);
  }
  template <typename Answer, typename Message>
  Answer call(const std::string& path, const std::string& token, const Message& message) {
    const auto response = send("POST", path, token, api::dump(message));
    EXPECT_EQ(response.status, 200) << path << ": " << response.body;
    return api::parse<Answer>(response.body).value_or(Answer{});
  }
  api::LoadAnswer load(const std::string& pod) {
    return call<api::LoadAnswer>("/v1/load", pod, api::LoadRequest{.cache = "transformer"});
  }
  // A whole save; returns the status of the commit's answer.
  int save(const std::string& pod, char manifest) {
    const auto answer = call<api::SaveAnswer>(
        "/v1/saves", pod, api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
    EXPECT_EQ(answer.decision, "granted") << answer.reason;
    return send("POST", "/v1/saves/" + answer.id + "/commit", pod,
                api::dump(api::CommitRequest{.fence = answer.fence,
                                             .parent_digest = answer.parent_digest,
                                             .manifest_digest = digest(manifest),
                                             .blobs = {digest(manifest)},
                                             .compile_seconds = 40}))
        .status;
  }
  void report_loaded(const std::string& pod, const std::string& outcome, const std::string& match,
                     const std::string& corrupt = {}) {
    const auto archive = archives.archives.begin()->second;
    api::LoadedReport report{.cache = "transformer", .outcome = outcome, .match = match};
    report.archive = archive.metadata.name;
    report.manifest_digest = archive.head.manifest_digest;
    report.corrupt_digest = corrupt;
    report.milliseconds = 37;
    EXPECT_EQ(send("POST", "/v1/loaded", pod, api::dump(report)).status, 200);
  }
  void report_effect(const std::string& pod, const std::string& effect, double compile_seconds) {
    EXPECT_EQ(
        send("POST", "/v1/effect", pod,
             api::dump(api::EffectReport{
                 .cache = "transformer", .effect = effect, .compile_seconds = compile_seconds}))
            .status,
        200);
  }
  api::CompileCacheStatus status() {
    api::CompileCacheStatus status;
    board.fill("ml/transformer", status);
    return status;
  }
  api::SweepAnswer begin_sweep() {
    return call<api::SweepAnswer>("/v1/sweeps", "job",
                                  api::SweepRequest{.cache = "transformer", .phase = "begin"});
  }
  void end_sweep(const std::string& inventory, const std::vector<std::string>& corrupt = {}) {
    api::SweepRequest request{.cache = "transformer", .phase = "end"};
    for (const char fill : inventory) request.inventory.push_back({digest(fill), 1});
    request.corrupt = corrupt;
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(request)).status, 200);
  }
  // The status writer.
  void write_status() {
    board.fill("ml/transformer", cache.status);
    put_cache();
  }

  Settings settings;
  std::string mode = "ReadWrite";
  seconds wait_for_first{0};
  FakeClock clock;
  ClusterStores stores;
  api::CompileCache cache;
  ClusterView view{stores};
  TokenAuth auth{[](const json& review) -> Result<json> {
                   const std::string pod = review["spec"]["token"];
                   return json{{"status",
                                {{"authenticated", pod != "stranger"},
                                 {"audiences", {api::kTokenAudience}},
                                 {"user",
                                  {{"username", "system:serviceaccount:ml:default"},
                                   {"extra",
                                    {{"authentication.kubernetes.io/pod-name", {pod}},
                                     {"authentication.kubernetes.io/pod-uid", {"uid-" + pod}},
                                     {"authentication.kubernetes.io/node-name", {"n1"}}}}}}}}};
                 },
                 seconds(60), clock};
  FakeArchives archives;
  CacheLocks locks;
  SweepGuard guard;
  SaveCoordinator saves{archives, locks, guard, 50, clock, seeded_random(1)};
  ArchiveRegistry registry{archives, seconds(5), clock};
  LoadTraffic traffic{50, clock};
  StatusBoard board{32};
  Metrics metrics;
  Events events;
  bool leading = true;
  int sweeps_wanted = 0;
  AgentApi agent_api{
      {view, auth, saves, locks, guard, archives, registry, traffic, board, metrics, events},
      settings,
      {.is_leader = [this] { return leading; },
       .fetch_pod = [](const std::string&, const std::string&) -> Result<PodView> {
         return fail(ErrorCode::kNotFound, "no such pod");
       },
       .sweep_wanted = [this](const auto&, const auto&) { ++sweeps_wanted; }},
      clock};
};

TEST_F(AgentApiTest, ColdSaveWarm) {
  const auto cold = load("a");
  EXPECT_EQ(cold.decision, "none");
  EXPECT_EQ(cold.reason, "no_archive");
  EXPECT_EQ(cold.gpu_product, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(save("a", '1'), 200);
  const auto warm = load("b");
  EXPECT_EQ(warm.decision, "load");
  EXPECT_EQ(warm.match, "exact");
  EXPECT_EQ(warm.manifest_digest, digest('1'));
  EXPECT_EQ(warm.budget_ms, 20'000) << "half of the compile time";
  report_loaded("b", "SUCCESS", "exact");
  report_effect("b", "unused", 0);
  report_effect("b", "full", 0);
  const auto now = status();
  EXPECT_EQ(now.loads.exact, 1);
  EXPECT_EQ(now.effect, (api::EffectCounters{.full = 1}));
  EXPECT_EQ(now.saves.committed, 1);
  EXPECT_EQ(now.seconds_saved, 40);
  EXPECT_EQ(now.recent.at(0).milliseconds, 37);
  EXPECT_EQ(events.reasons, (std::vector<std::string>{"CacheSaved", "CacheLoaded"}));
  registry.flush(true);
  const auto& archive = archives.archives.begin()->second;
  EXPECT_EQ(archive.loads.exact, 1);
  EXPECT_EQ(archive.effect, (api::EffectCounters{.full = 1}));
}

TEST_F(AgentApiTest, OnlyTheLeaderAnswers) {
  leading = false;
  const auto response = send("POST", "/v1/load", "a", "{}");
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.header("Retry-After"));
  EXPECT_EQ(api::error_of(503, response.body).code, ErrorCode::kUnavailable);
}

TEST_F(AgentApiTest, OnlyOurPodsAreServed) {
  EXPECT_EQ(send("POST", "/v1/load", "", "{}").status, 401);
  EXPECT_EQ(send("POST", "/v1/load", "stranger", "{}").status, 401);
  EXPECT_EQ(send("POST", "/v1/load", "gone", "{}").status, 403);
  auto plain = std::make_shared<PodView>(*view.pod("ml", "a"));
  plain->injection.reset();
  stores.pods.upsert("ml/a", plain);
  EXPECT_EQ(send("POST", "/v1/load", "a", "{}").status, 403);
  auto reborn = std::make_shared<PodView>(*view.pod("ml", "b"));
  reborn->uid = "another";
  stores.pods.upsert("ml/b", reborn);
  EXPECT_EQ(send("POST", "/v1/load", "b", "{}").status, 403);
  EXPECT_EQ(send("POST", "/v1/load", "c", R"({"cache": "other"})").status, 403);
  EXPECT_EQ(send("POST", "/v1/load", "job", R"({"cache": "transformer"})").status, 403);
  EXPECT_EQ(send("POST", "/v1/sweeps", "c", R"({"cache": "transformer", "phase": "begin"})").status,
            403);
  stores.caches.erase("ml/transformer", nullptr);
  EXPECT_EQ(send("POST", "/v1/load", "c", "{}").status, 404);
}

TEST_F(AgentApiTest, GarbageIsAnsweredNotServed) {
  EXPECT_EQ(send("POST", "/v1/load", "a", "{broken").status, 400);
  EXPECT_EQ(send("POST", "/v1/load", "a", "[]").status, 400);
  EXPECT_EQ(send("POST", "/v1/load", "a", std::string(300 * 1024, ' ')).status, 413);
  EXPECT_EQ(send("GET", "/v1/load", "a").status, 405);
  EXPECT_EQ(send("PATCH", "/v1/saves/x.1", "a").status, 405);
  EXPECT_EQ(send("POST", "/v2/load", "a", "{}").status, 404);
  EXPECT_EQ(send("POST", "/v1/saves/", "a", "{}").status, 404);
  EXPECT_EQ(send("POST", "/v1/saves/x.1/commit/more", "a", "{}").status, 404);
  EXPECT_EQ(send("POST", "/v1/sweeps", "job", R"({"cache": "transformer", "phase": "x"})").status,
            400);
  EXPECT_EQ(send("DELETE", "/v1/saves/nonsense", "a").status, 400);
}

TEST_F(AgentApiTest, ALockThatWasLostIsAConflict) {
  const api::SaveRequest request{.cache = "transformer", .attempt = "1", .new_files = 1};
  const auto save = call<api::SaveAnswer>("/v1/saves", "a", request);
  EXPECT_EQ(call<api::SaveAnswer>("/v1/saves", "b", request).decision, "busy");
  const std::string renew = api::dump(api::RenewRequest{.fence = save.fence});
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "a", renew).status, 200);
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "b", renew).status, 409);
  EXPECT_EQ(send("DELETE", "/v1/saves/" + save.id, "a").status, 200);
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "a", renew).status, 409);
}

TEST_F(AgentApiTest, ReadOnlyPodsDoNotSave) {
  mode = "ReadOnly";
  add_pod("reader");
  const auto answer = call<api::SaveAnswer>(
      "/v1/saves", "reader",
      api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(answer.decision, "refused");
  EXPECT_EQ(answer.reason, "mode_read_only");
}

TEST_F(AgentApiTest, TheSecondColdPodWaitsForTheFirst) {
  wait_for_first = seconds(60);
  for (const char* pod : {"a", "b"}) add_pod(pod);
  EXPECT_EQ(load("a").decision, "none");
  EXPECT_EQ(load("b").reason, "waiting_for_first");
  EXPECT_EQ(load("a").decision, "none") << "the first itself does not wait";
  auto ended = std::make_shared<PodView>(*view.pod("ml", "a"));
  ended->phase = "Failed";
  stores.pods.upsert("ml/a", ended);
  EXPECT_EQ(load("b").decision, "none") << "the first is dead, so the next goes ahead";
}

TEST_F(AgentApiTest, AFailedLoadIsColdAndSaid) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", "ERROR", "");
  EXPECT_EQ(status().loads.failed, 1);
  EXPECT_EQ(events.reasons.back(), "CacheLoadFailed");
  // Cold pods have no effect to judge.
  report_effect("b", "none", 40);
  EXPECT_EQ(status().effect, api::EffectCounters{});
}

TEST_F(AgentApiTest, ALoaderThatRunsAgainIsNotCountedAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", "SUCCESS", "exact");
  report_loaded("b", "SKIPPED", "");
  EXPECT_EQ(status().loads, (api::LoadCounters{.exact = 1}));
}

TEST_F(AgentApiTest, SaveOutcomesAreCountedOnce) {
  api::EffectReport report{.cache = "transformer", .effect = "unused"};
  report.save_outcome = "SKIPPED";
  report.save_reason = "too_large";
  for (int i = 0; i < 3; ++i) send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.refused = 1}));
  report.save_outcome = "ERROR";
  send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.refused = 2})) << "too_large is no failure";
  report.save_reason = "commit_failed";
  send("POST", "/v1/effect", "a", api::dump(report));
  report.save_outcome = "SKIPPED";
  report.save_reason = "unchanged";
  send("POST", "/v1/effect", "a", api::dump(report));
  report.save_reason = "nothing_to_save";
  send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.unchanged = 1, .refused = 2, .failed = 1}));
}

TEST_F(AgentApiTest, ACorruptArchiveIsSuspectAtOnceAndCorruptAfterASweep) {
  ASSERT_EQ(save("a", '1'), 200);
  ASSERT_EQ(save("a", '2'), 200);
  report_loaded("b", "ERROR", "", digest('2'));
  EXPECT_EQ(sweeps_wanted, 1);
  EXPECT_TRUE(is_suspect(archives.archives.begin()->second));
  EXPECT_EQ(load("c").manifest_digest, digest('1')) << "the generation before takes its place";
  EXPECT_EQ(begin_sweep().check, std::vector<std::string>{digest('2')});
  end_sweep("12", {digest('2')});
  const auto& archive = archives.archives.begin()->second;
  EXPECT_TRUE(is_corrupt(archive));
  EXPECT_FALSE(is_suspect(archive));
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
  ASSERT_EQ(status().condemned.size(), 1U) << "its blobs are garbage now";
}

TEST_F(AgentApiTest, SweepsDeleteInTwoSteps) {
  for (const char manifest : {'1', '2', '3'}) ASSERT_EQ(save("a", manifest), 200);
  clock.advance(minutes(5));
  EXPECT_EQ(begin_sweep().archives.at(0).manifest_digest, digest('3'));
  end_sweep("123");
  ASSERT_EQ(status().condemned.size(), 1U);
  EXPECT_EQ(status().condemned[0].digest, digest('1'));
  EXPECT_EQ(status().last_sweep.time, format_time(clock.wall()));
  clock.advance(minutes(9));
  write_status();
  EXPECT_TRUE(begin_sweep().deletable.empty()) << "within the grace";
  end_sweep("123");
  clock.advance(minutes(2));
  EXPECT_EQ(begin_sweep().deletable, std::vector<std::string>{digest('1')});
  EXPECT_EQ(save("b", '1'), 409) << "it is being swept";
  EXPECT_EQ(sweeps_wanted, 1);
  end_sweep("23");
  clock.advance(minutes(2));
  EXPECT_EQ(save("c", '1'), 200);
}

TEST_F(AgentApiTest, WhatIsNotInTheStatusYetIsNotDeleted) {
  for (const char manifest : {'1', '2', '3'}) ASSERT_EQ(save("a", manifest), 200);
  clock.advance(minutes(5));
  begin_sweep();
  end_sweep("123");
  clock.advance(minutes(11));
  EXPECT_TRUE(begin_sweep().deletable.empty());
}

TEST_F(AgentApiTest, AVolumeThatCannotBeUsedChangesNoList) {
  api::SweepRequest request{.cache = "transformer", .phase = "end"};
  request.storage_error = "read-only file system";
  EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(request)).status, 200);
  EXPECT_EQ(status().last_sweep.time, "");
}

TEST_F(AgentApiTest, ANodeWithoutALabelMakesTheLoaderWait) {
  auto node = std::make_shared<NodeView>();
  node->name = "n1";
  node->facts = {"", "amd64", "", ""};
  stores.nodes.upsert("n1", node);
  EXPECT_EQ(load("a").decision, "wait");
  EXPECT_EQ(load("a").reason, "gpu_product_unknown");
  add_pod("cpu", "");
  EXPECT_EQ(load("cpu").gpu_product, "cpu-amd64");
}

}  // namespace
}  // namespace compilecache::controller
