#include <gmock/gmock.h>

#include <atomic>
#include <future>

#include "http/server.hpp"
#include "tests/support/soon.hpp"
#include "tests/unit/http/raw_socket.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using test::digest;
using ::testing::HasSubstr;

class AgentApi : public test::AgentApiTest {};

TEST_F(AgentApi, ColdSaveWarm) {
  const auto cold = load("a");
  EXPECT_EQ(cold.decision, api::LoadDecision::kNone);
  EXPECT_EQ(cold.reason, "no_archive");
  EXPECT_EQ(cold.gpu_product, "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(save("a", '1'), 200);
  const auto warm = load("b");
  EXPECT_EQ(warm.decision, api::LoadDecision::kLoad);
  EXPECT_EQ(warm.match, api::Match::kExact);
  EXPECT_EQ(warm.manifest_digest, digest('1'));
  EXPECT_EQ(warm.budget_ms, 20'000) << "half of the compile time";
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  report_effect("b", api::Effect::kUnused, 0);
  report_effect("b", api::Effect::kFull, 0);
  const auto now = status();
  EXPECT_EQ(now.loads.exact, 1);
  EXPECT_EQ(now.effect, (api::EffectCounters{.full = 1}));
  EXPECT_EQ(now.saves.committed, 1);
  EXPECT_EQ(now.seconds_saved, 40);
  EXPECT_EQ(now.recent.list().at(0).milliseconds, 37);
  EXPECT_EQ(events.reasons, (std::vector<std::string>{"CacheSaved", "CacheLoaded"}));
  registry.flush(true);
  const auto& archive = archives.archives.begin()->second;
  EXPECT_EQ(archive.loads.exact, 1);
  EXPECT_EQ(archive.effect, (api::EffectCounters{.full = 1}));
}

TEST_F(AgentApi, ThePodHasItsEventsAndItsOwnerToo) {
  auto pod = std::make_shared<PodView>(*view.pod("ml", "a"));
  pod->owner = std::make_shared<const OwnerView>(OwnerView{"apps/v1", "ReplicaSet", "web", "rs"});
  stores.pods.upsert("ml/a", pod);
  ASSERT_EQ(save("a", '1'), 200);
  EXPECT_EQ(events.reasons, (std::vector<std::string>{"CacheSaved", "CacheSaved"}));
  EXPECT_EQ(events.messages.at(1), "pod a: " + events.messages.at(0));
}

TEST_F(AgentApi, HostsOfTwoKindsEachGetTheirOwnArchive) {
  ASSERT_EQ(save("a", '1', "avx512-1"), 200);
  EXPECT_EQ(load("b", "avx2-2").reason, "cpu_mismatch");
  ASSERT_EQ(save("b", '2', "avx2-2"), 200);
  EXPECT_EQ(load("c", "avx512-1").manifest_digest, digest('1'));
  EXPECT_EQ(load("c", "avx2-2").manifest_digest, digest('2'));
  EXPECT_EQ(archives.archives.size(), 2u) << "neither replaces the other's";
}

TEST_F(AgentApi, WhatHoldsNoCodeForCpusIsSharedAmongHosts) {
  ASSERT_EQ(save("a", '1', api::kAnyCpu), 200);
  const auto answer = load("b", "avx2-2");
  EXPECT_EQ(answer.match, api::Match::kExact);
  EXPECT_EQ(answer.manifest_digest, digest('1'));
  EXPECT_EQ(load("c").manifest_digest, digest('1')) << "an agent of 0.2 may have it, too";
}

TEST_F(AgentApi, AgentsOfTwoReleasesDoNotMixTheirArchives) {
  ASSERT_EQ(save("a", '1'), 200);  // by 0.2
  const auto answer = call<api::SaveAnswer>(
      "/v1/saves", "b",
      api::SaveRequest{
          .cache = "transformer", .attempt = "1", .new_files = 1, .cpu = api::kAnyCpu});
  EXPECT_EQ(answer.parent_digest, "") << "nobody knows what is in the other's";
  EXPECT_EQ(load("c").manifest_digest, digest('1'));
}

TEST_F(AgentApi, ACpuThatIsNoneIsRefused) {
  const std::string load = api::dump(api::LoadRequest{.cache = "transformer", .cpu = "A VX\n"});
  EXPECT_EQ(send("POST", "/v1/load", "a", load).status, 400);
  const std::string save = api::dump(
      api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1, .cpu = "unknown"});
  EXPECT_EQ(send("POST", "/v1/saves", "a", save).status, 400);
}

TEST_F(AgentApi, TheStatusTellsTheHostsCpu) {
  const api::LoadedReport report{.cache = "transformer",
                                 .outcome = api::Outcome::kDoesNotExist,
                                 .reason = "cpu_mismatch",
                                 .cpu = "avx2-2"};
  EXPECT_EQ(send("POST", "/v1/loaded", "a", api::dump(report)).status, 200);
  const auto recent = status().recent.list().at(0);
  EXPECT_EQ(recent.key.at("CPU"), "avx2-2");
  EXPECT_EQ(recent.reason, "cpu_mismatch");
  EXPECT_THAT(events.messages.back(), HasSubstr("cpu_mismatch"));
  EXPECT_THAT(metrics.text(), HasSubstr("reason=\"cpu_mismatch\"} 1"));
  EXPECT_THAT(events.messages.back(), HasSubstr("avx2-2"));
}

// The first of a kind compiles for its kind; another kind's pods would wait for nothing.
TEST_F(AgentApi, PodsWaitForTheFirstOfTheirOwnKindOfHost) {
  wait_for_first = minutes(5);
  for (const char* name : {"a", "b", "c"}) add_pod(name);
  EXPECT_EQ(load("a", "avx512-1").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("b", "avx512-1").decision, api::LoadDecision::kWait);
  EXPECT_EQ(load("c", "avx2-2").decision, api::LoadDecision::kNone);
}

TEST_F(AgentApi, OnlyTheLeaderAnswers) {
  leading = false;
  const auto response = send("POST", "/v1/load", "a", "{}");
  EXPECT_EQ(response.status, 503);
  EXPECT_TRUE(response.header("Retry-After"));
  EXPECT_EQ(api::error_of(503, response.body).code, ErrorCode::kUnavailable);
}

TEST_F(AgentApi, OnlyOurPodsAreServed) {
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
  cache.metadata.deleting = true;
  put_cache();
  EXPECT_EQ(send("POST", "/v1/load", "c", "{}").status, 404);
  stores.caches.erase("ml/transformer", nullptr);
  EXPECT_EQ(send("POST", "/v1/load", "c", "{}").status, 404);
}

TEST_F(AgentApi, WhoSpokeIsKnownWhateverItSaid) {
  load("a");
  begin_sweep();
  send("POST", "/v1/load", "stranger", "{}");
  send("POST", "/v1/effect", "b", "{broken");
  EXPECT_EQ(spoke, (std::vector<std::string>{"a", "b"})) << "neither strangers nor sweep Jobs";
}

TEST_F(AgentApi, GarbageIsAnsweredNotServed) {
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

TEST_F(AgentApi, ALockThatWasLostIsAConflict) {
  const api::SaveRequest request{.cache = "transformer", .attempt = "1", .new_files = 1};
  const auto save = call<api::SaveAnswer>("/v1/saves", "a", request);
  EXPECT_EQ(call<api::SaveAnswer>("/v1/saves", "b", request).decision, api::SaveDecision::kBusy);
  const std::string renew = api::dump(api::RenewRequest{.fence = save.fence});
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "a", renew).status, 200);
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "b", renew).status, 409);
  EXPECT_EQ(send("DELETE", "/v1/saves/" + save.id, "a").status, 200);
  EXPECT_EQ(send("PUT", "/v1/saves/" + save.id, "a", renew).status, 409);
}

TEST_F(AgentApi, ReadOnlyPodsDoNotSave) {
  mode = api::Mode::kReadOnly;
  add_pod("reader");
  const auto answer = call<api::SaveAnswer>(
      "/v1/saves", "reader",
      api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(answer.decision, api::SaveDecision::kRefused);
  EXPECT_EQ(answer.reason, "mode_read_only");
}

TEST_F(AgentApi, AFailedLoadIsColdAndSaid) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kError, {});
  EXPECT_EQ(status().loads.failed, 1);
  EXPECT_EQ(events.reasons.back(), "CacheLoadFailed");
  // Cold pods have no effect to judge.
  report_effect("b", api::Effect::kNone, 40);
  EXPECT_EQ(status().effect, api::EffectCounters{});
}

// What `explain` and people read of one pod.
TEST_F(AgentApi, TheStatusTellsThePodsStory) {
  ASSERT_EQ(save("a", '1'), 200);
  const auto given = load("b");
  api::LoadedReport loaded{
      .cache = "transformer", .outcome = api::Outcome::kSuccess, .match = api::Match::kExact};
  loaded.archive = given.archive;
  loaded.generation = given.generation;
  loaded.milliseconds = 5200;
  loaded.waited_ms = 5000;
  loaded.waited_for = "waiting_for_first";
  loaded.asked_ms = 3;
  loaded.bytes = 1234;
  ASSERT_EQ(send("POST", "/v1/loaded", "b", api::dump(loaded)).status, 200);
  api::EffectReport effect{.cache = "transformer", .effect = api::Effect::kNone};
  effect.loaded_entries = 9;
  effect.new_entries = 7;
  effect.compile_seconds = 12.5;
  effect.new_names = {"vllm/torch_compile_cache/0/artifact_1", std::string(300, 'x')};
  effect.differing = {"VLLM_PORT", "config_hash"};
  effect.save_outcome = api::Outcome::kSkipped;
  effect.save_reason = "unchanged";
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(effect)).status, 200);

  const auto recent = status().recent.list();
  ASSERT_EQ(recent.size(), 1U);
  const api::RecentPod& pod = recent[0];
  EXPECT_EQ(pod.key.at("GPUProduct"), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(pod.key.at("Image"), "torch:1");
  EXPECT_EQ(pod.generation, 1);
  EXPECT_EQ(pod.wait_milliseconds, 5000);
  EXPECT_EQ(pod.wait_reason, "waiting_for_first");
  EXPECT_EQ(pod.ask_milliseconds, 3);
  EXPECT_EQ(pod.new_entries, 7);
  EXPECT_EQ(pod.compile_milliseconds, 12'500);
  ASSERT_EQ(pod.compiled.size(), 2U);
  EXPECT_LE(pod.compiled[1].size(), 100U) << "many of these are in one object";
  EXPECT_EQ(pod.differing, (std::vector<std::string>{"VLLM_PORT", "config_hash"}));
  EXPECT_EQ(pod.save, "unchanged");
  EXPECT_EQ(events.reasons.back(), "CacheNotEffective");
  EXPECT_THAT(events.messages.back(), HasSubstr("VLLM_PORT, config_hash"));
}

TEST_F(AgentApi, AColdPodsStoryIsToldToo) {
  api::LoadedReport cold{.cache = "transformer", .outcome = api::Outcome::kDoesNotExist};
  cold.reason = "no_archive";
  cold.waited_for = "whatever an agent says";
  ASSERT_EQ(send("POST", "/v1/loaded", "a", api::dump(cold)).status, 200);
  EXPECT_EQ(events.reasons.back(), "CacheMissing");
  EXPECT_THAT(events.messages.back(), HasSubstr("no_archive (key Architecture=amd64"));
  api::EffectReport compiled{.cache = "transformer"};
  compiled.new_entries = 7;
  compiled.compile_seconds = 40;
  ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(compiled)).status, 200);
  ASSERT_EQ(save("a", '1'), 200);
  const api::RecentPod pod = status().recent.list().at(0);
  EXPECT_EQ(pod.reason, "no_archive");
  EXPECT_EQ(pod.wait_reason, "");
  EXPECT_EQ(pod.compile_milliseconds, 40'000);
  EXPECT_EQ(pod.new_entries, 7);
  EXPECT_EQ(pod.save, "committed");
}

// Forty seconds of compiling, of which the app read a part.
TEST_F(AgentApi, TimeSavedIsTheShareThatWasRead) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  api::EffectReport partly{
      .cache = "transformer", .effect = api::Effect::kPartial, .compile_seconds = 30};
  partly.loaded_entries = 8;
  partly.read_entries = 2;
  partly.new_entries = 6;
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(partly)).status, 200);
  EXPECT_EQ(status().seconds_saved, 10);
  ASSERT_EQ(save("b", '2'), 200);  // on top: the archive is worth 80 now, what was loaded is not
  partly.read_entries = 4;
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(partly)).status, 200);
  EXPECT_EQ(status().seconds_saved, 20);
}

// Every graph was found, and their kernels were compiled again.
TEST_F(AgentApi, TimeSavedIsNoneOfWhatWasCompiledBesideEntries) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  api::EffectReport beside{.cache = "transformer",
                           .effect = api::Effect::kPartial,
                           .loaded_entries = 8,
                           .read_entries = 8,
                           .compile_seconds = 30};
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(beside)).status, 200);
  EXPECT_EQ(status().seconds_saved, 10);
  beside.compile_seconds = 55;
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(beside)).status, 200);
  EXPECT_EQ(status().seconds_saved, 0);
}

// vLLM on CPUs recreates its artifact from kernels that it finds.
TEST_F(AgentApi, TimeSavedIsWhatKernelsSparedWhereNoEntryWasRead) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  const api::EffectReport kernels{.cache = "transformer",
                                  .effect = api::Effect::kPartial,
                                  .loaded_entries = 8,
                                  .new_entries = 1,
                                  .compile_seconds = 1};
  ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(kernels)).status, 200);
  EXPECT_EQ(status().seconds_saved, 39);
}

TEST_F(AgentApi, ALoaderThatRunsAgainIsNotCountedAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  report_loaded("b", api::Outcome::kSkipped, {});
  EXPECT_EQ(status().loads, (api::LoadCounters{.exact = 1}));
}

TEST_F(AgentApi, SaveOutcomesAreCountedOnce) {
  api::EffectReport report{.cache = "transformer", .effect = api::Effect::kUnused};
  report.save_outcome = api::Outcome::kSkipped;
  report.save_reason = "too_large";
  for (int i = 0; i < 3; ++i) send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.refused = 1}));
  report.save_outcome = api::Outcome::kError;
  send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.refused = 2})) << "too_large is no failure";
  report.save_reason = "commit_failed";
  send("POST", "/v1/effect", "a", api::dump(report));
  report.save_outcome = api::Outcome::kSkipped;
  report.save_reason = "unchanged";
  send("POST", "/v1/effect", "a", api::dump(report));
  report.save_reason = "nothing_to_save";
  send("POST", "/v1/effect", "a", api::dump(report));
  EXPECT_EQ(status().saves, (api::SaveCounters{.unchanged = 1, .refused = 2, .failed = 1}));
}

TEST_F(AgentApi, ACommitThatIsRepeatedCountsOnce) {
  const auto granted = call<api::SaveAnswer>(
      "/v1/saves", "a", api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  const std::string commit = api::dump(api::CommitRequest{
      .fence = granted.fence, .manifest_digest = digest('1'), .blobs = {digest('1')}});
  for (int i = 0; i < 3; ++i) {
    const auto answer = send("POST", "/v1/saves/" + granted.id + "/commit", "a", commit);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(api::parse<api::CommitAnswer>(answer.body)->generation, 1);
  }
  EXPECT_EQ(status().saves.committed, 1);
  EXPECT_EQ(std::count(events.reasons.begin(), events.reasons.end(), "CacheSaved"), 1);
}

TEST_F(AgentApi, ANewLeaderCountsNoVerdictAgain) {
  ASSERT_EQ(save("a", '1'), 200);
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  report_effect("b", api::Effect::kFull, 0);
  ASSERT_EQ(status().effect.full, 1);
  ASSERT_EQ(status().seconds_saved, 40);
  ASSERT_EQ(save("a", '2'), 200);  // the archive grows, and is worth more
  api::CompileCacheStatus written = cache.status;
  stats.fill("ml/transformer", written);
  // Among hundreds of pods this one is no longer listed.
  for (const bool told : {true, false}) {
    SCOPED_TRACE(told);
    cache.status = written;
    if (!told) cache.status.recent = {};
    put_cache();
    stats.forget("ml/transformer");
    meet_cache();
    const api::EffectReport again{.cache = "transformer",
                                  .effect = api::Effect::kFull,
                                  .counted_effect = api::Effect::kFull,
                                  .loaded_entries = 3,
                                  .read_entries = 3};
    ASSERT_EQ(send("POST", "/v1/effect", "b", api::dump(again)).status, 200);
    EXPECT_EQ(status().effect.full, 1);
    EXPECT_EQ(status().seconds_saved, 40);
  }
}

TEST_F(AgentApi, OneThatSendsWithoutEndKeepsNobodyWaiting) {
  std::promise<void> let_go;
  const auto held = let_go.get_future().share();
  on_review = [&](const std::string& token) {
    if (token.starts_with("slow")) held.wait();
  };
  agent_api.start();
  std::atomic<int> handed{0};
  const auto server = *http::Server::start(
      {.address = "127.0.0.1", .tls = false}, [&](http::Request request, http::Responder to) {
        request.peer = request.header("From").value_or("");  // as if it came from there
        agent_api.handle(std::move(request), std::move(to));
        ++handed;
      });
  const std::string body = api::dump(api::LoadRequest{.cache = "transformer"});
  const auto post = [&](const std::string& from, const std::string& token) {
    auto socket = std::make_unique<http::testing::RawSocket>(server->port());
    socket->send("POST /v1/load HTTP/1.1\r\nHost: x\r\nConnection: close\r\nFrom: " + from +
                 "\r\nAuthorization: Bearer " + token +
                 "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return socket;
  };
  const auto is_ok = [](http::testing::RawSocket& socket) {
    return socket.read_all().starts_with("HTTP/1.1 200");
  };
  std::vector<std::unique_ptr<http::testing::RawSocket>> slow;
  for (int i = 0; i < 2 * settings.limits.api_threads; ++i) {
    slow.push_back(post("10.0.0.1:" + std::to_string(1000 + i), "slow-" + std::to_string(i)));
  }
  EXPECT_TRUE(
      compilecache::testing::soon([&] { return handed == 2 * settings.limits.api_threads; }));
  EXPECT_TRUE(is_ok(*post("10.0.0.2:1000", "a"))) << "while the tokens of another are checked";
  let_go.set_value();
  for (const auto& socket : slow) EXPECT_FALSE(is_ok(*socket)) << "not injected pods, but answered";
  server->stop(seconds(5));
  agent_api.stop();
}

TEST_F(AgentApi, TheOwnerOfUnreadableFilesIsLearned) {
  const auto told = [&](int64_t files, int64_t owner) {
    const api::EffectReport report{
        .cache = "transformer", .unreadable_files = files, .unreadable_owner = owner};
    EXPECT_EQ(send("POST", "/v1/effect", "a", api::dump(report)).status, 200);
    return status().file_owners;
  };
  load("a");
  EXPECT_TRUE(told(0, 0).empty()) << "all could be read";
  for (const int64_t no_user :
       {int64_t{-1}, int64_t{1} << 31, std::numeric_limits<int64_t>::min()}) {
    EXPECT_TRUE(told(2, no_user).empty()) << "a pod with that user would be refused: " << no_user;
  }
  const auto owners = told(2, 0);
  ASSERT_EQ(owners.size(), 1U);
  EXPECT_EQ(owners[0].image, "torch:1");
  EXPECT_EQ(owners[0].user, 0);
  EXPECT_EQ(events.reasons.back(), "CacheFilesUnreadable");
  EXPECT_NE(events.messages.back().find("spec.save.runAsUser"), std::string::npos);
  const size_t said = events.reasons.size();
  EXPECT_EQ(told(2, 0), owners);
  EXPECT_EQ(events.reasons.size(), said) << "once";
}

// Savers of later pods get that user.
TEST_F(AgentApi, AForgedOwnerOfFilesIsNotBelieved) {
  const auto told = [&](const std::string& pod, int64_t owner) {
    const api::EffectReport report{
        .cache = "transformer", .unreadable_files = 1, .unreadable_owner = owner};
    EXPECT_EQ(send("POST", "/v1/effect", pod, api::dump(report)).status, 200);
    return status().file_owners;
  };
  possible_owners = {1000};
  EXPECT_TRUE(told("a", 0).empty()) << "its containers do not run as root";
  cache.spec.save.allowed_service_accounts = {"builder"};
  put_cache();
  EXPECT_TRUE(told("b", 1000).empty()) << "it may not save";
  accounts["c"] = "builder";
  EXPECT_EQ(told("c", 1000).size(), 1U);
}

TEST_F(AgentApi, ReportsBringNoControlCharactersToTerminals) {
  api::LoadedReport report{.cache = "transformer", .outcome = api::Outcome::kError};
  report.reason = "io\x1b[2J";
  report.message = "line 1\nline 2 \xE2\x80\xAE gnp.exe";
  ASSERT_EQ(send("POST", "/v1/loaded", "a", api::dump(report)).status, 200);
  const api::RecentPod pod = status().recent.list().at(0);
  EXPECT_EQ(pod.reason, "io?[2J");
  EXPECT_EQ(pod.message, "line 1 line 2 ? gnp.exe");
  api::EffectReport effect{.cache = "transformer"};
  effect.new_names = {"torch/\xE2\x80\xAE"};
  effect.save_outcome = api::Outcome::kError;
  effect.save_reason = "io";
  effect.save_message = "\x1b]0;root\x07";
  ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(effect)).status, 200);
  EXPECT_EQ(status().recent.list().at(0).compiled, std::vector<std::string>{"torch/?"});
  EXPECT_NE(events.messages.back().find("?]0;root?"), std::string::npos);
}

TEST_F(AgentApi, OnlyDigestsAndThePodsOwnArchivesAreKept) {
  ASSERT_EQ(save("a", '1'), 200);
  const std::string own = archive().metadata.name;
  const auto tell = [&](const std::string& pod, const std::string& named,
                        const std::string& manifest) {
    api::LoadedReport report{.cache = "transformer",
                             .outcome = api::Outcome::kSuccess,
                             .archive = named,
                             .manifest_digest = manifest,
                             .match = api::Match::kExact};
    ASSERT_EQ(send("POST", "/v1/loaded", pod, api::dump(report)).status, 200);
  };
  tell("a", own, std::string(50'000, 'm'));
  EXPECT_EQ(crashes.manifest_of("uid-a"), "");
  tell("b", "of-another", digest('1'));
  EXPECT_EQ(crashes.manifest_of("uid-b"), "");
  tell("c", own, digest('1'));
  EXPECT_EQ(crashes.manifest_of("uid-c"), digest('1'));
}

TEST_F(AgentApi, AStoreThatIsGoneIsMadeAnewAtTheFirstFailure) {
  api::EffectReport failed{.cache = "transformer"};
  failed.save_outcome = api::Outcome::kError;
  failed.save_reason = "volume_full";
  ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(failed)).status, 200);
  EXPECT_EQ(sweeps_wanted, 0) << "no sweep helps";
  failed.save_reason = "store_missing";
  for (int repeated = 0; repeated < 2; ++repeated) {
    ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(failed)).status, 200);
  }
  EXPECT_EQ(sweeps_wanted, 1);
  EXPECT_EQ(status().saves.failed, 2);
  api::LoadedReport missing{
      .cache = "transformer", .outcome = api::Outcome::kDoesNotExist, .reason = "store_missing"};
  ASSERT_EQ(send("POST", "/v1/loaded", "b", api::dump(missing)).status, 200);
  EXPECT_EQ(sweeps_wanted, 2);
}

TEST_F(AgentApi, ASaveThatIsNotWholeIsTold) {
  report_cold("a");
  api::EffectReport saved{.cache = "transformer"};
  saved.save_outcome = api::Outcome::kSuccess;
  saved.save_reason = "too_many_files";
  ASSERT_EQ(send("POST", "/v1/effect", "a", api::dump(saved)).status, 200);
  EXPECT_EQ(status().recent.list().at(0).save_reason, "too_many_files");
  EXPECT_EQ(events.reasons.back(), "CacheSaveIncomplete");
}

TEST_F(AgentApi, SweepsDeleteInTwoSteps) {
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

TEST_F(AgentApi, AnInventoryInPagesIsAsGoodAsOneInOne) {
  for (const char manifest : {'1', '2', '3', '4'}) ASSERT_EQ(save("a", manifest), 200);
  clock.advance(minutes(5));
  begin_sweep();
  api::SweepRequest page{.cache = "transformer", .phase = api::SweepPhase::kInventory};
  page.inventory = api::Inventory{.blobs = {{digest('1'), 1}}, .up_to = digest('1')};
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(page)).status, 200);
  }
  api::SweepRequest end{.cache = "transformer", .phase = api::SweepPhase::kEnd};
  end.inventory = api::Inventory{.after = digest('1')};
  for (const char blob : {'2', '3', '4'}) end.inventory->blobs.push_back({digest(blob), 1});
  EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(end)).status, 200);
  ASSERT_EQ(status().condemned.size(), 2U);
  EXPECT_EQ(status().condemned[0].digest, digest('1'));
  EXPECT_EQ(status().condemned[1].digest, digest('2'));
  EXPECT_EQ(save("b", '5'), 200) << "a sweep that is over keeps nobody from saving";
}

TEST_F(AgentApi, WhatIsNotInTheStatusYetIsNotDeleted) {
  for (const char manifest : {'1', '2', '3'}) ASSERT_EQ(save("a", manifest), 200);
  clock.advance(minutes(5));
  begin_sweep();
  end_sweep("123");
  clock.advance(minutes(11));
  EXPECT_TRUE(begin_sweep().deletable.empty());
}

TEST_F(AgentApi, AVolumeThatCannotBeUsedChangesNoList) {
  api::SweepRequest request{.cache = "transformer", .phase = api::SweepPhase::kEnd};
  request.storage_error = "read-only file system";
  EXPECT_EQ(send("POST", "/v1/sweeps", "job", api::dump(request)).status, 200);
  EXPECT_EQ(status().last_sweep.time, "");
}

class Inventories : public AgentApi {
 protected:
  // An archive with the head '2' after '1', which is garbage but in the store.
  Inventories() {
    for (const char manifest : {'1', '2', '3'}) EXPECT_EQ(save("a", manifest), 200);
    clock.advance(minutes(5));
    begin_sweep();
  }
  int tell(const std::string& body) { return send("POST", "/v1/sweeps", "job", body).status; }
  int end(const api::Inventory& inventory, const std::vector<std::string>& verified = {}) {
    return tell(api::dump(api::SweepRequest{.cache = "transformer",
                                            .phase = api::SweepPhase::kEnd,
                                            .inventory = inventory,
                                            .verified = verified}));
  }
};

TEST_F(Inventories, ThatCouldNotBeReadChangeNothing) {
  api::SweepRequest failed{.cache = "transformer", .phase = api::SweepPhase::kFail};
  failed.sweep_error = "cannot list the blobs: 429";
  ASSERT_EQ(tell(api::dump(failed)), 200);
  EXPECT_FALSE(is_suspect(archive())) << "nobody has looked for its blobs";
  EXPECT_EQ(load("b").decision, api::LoadDecision::kLoad);
  EXPECT_TRUE(status().condemned.empty());
  EXPECT_EQ(status().last_sweep.time, "");
  EXPECT_EQ(sweeps_wanted, 0);
  EXPECT_NE(metrics.text().find(R"(outcome="failed")"), std::string::npos) << metrics.text();
  EXPECT_EQ(save("b", '5'), 200) << "a sweep that is over keeps nobody from saving";
  api::SweepRequest page{.cache = "transformer", .phase = api::SweepPhase::kInventory};
  EXPECT_EQ(tell(api::dump(page)), 400) << "no page without a list";
}

// 0.2 ends with exactly these words where it could not list the blobs.
TEST_F(Inventories, ThatAnOldAgentDoesNotHaveChangeNothing) {
  ASSERT_EQ(tell(R"({"cache":"transformer","phase":"end","inventory":[],"after":"","up_to":"",)"
                 R"("verified":[],"corrupt":[],"storage_error":""})"),
            200);
  EXPECT_FALSE(is_suspect(archive()));
  EXPECT_TRUE(status().condemned.empty());
  EXPECT_EQ(status().last_sweep.time, format_time(clock.wall())) << "the store can be used";
  begin_sweep();
  ASSERT_EQ(tell(R"({"cache":"transformer","phase":"end","inventory":[{"digest":")" + digest('1') +
                 R"(","size":1}]})"),
            200);
  EXPECT_TRUE(is_suspect(archive())) << "this one knew what is there";
  EXPECT_EQ(status().condemned.size(), 1U);
}

TEST_F(Inventories, OfAnEmptyStoreMissEveryHead) {
  ASSERT_EQ(end({}), 200);
  EXPECT_TRUE(is_suspect(archive()));
  EXPECT_EQ(sweeps_wanted, 0) << "its condition starts the next one, after pauses that grow";
}

TEST_F(Inventories, WhatOthersKeepIsNeitherMissedNorDeleted) {
  ASSERT_EQ(end({.kept = {digest('1'), digest('2'), digest('3')}}), 200);
  EXPECT_FALSE(is_suspect(archive()));
  EXPECT_TRUE(status().condemned.empty());
  begin_sweep();
  ASSERT_EQ(end({.blobs = {{digest('1'), 1}, {digest('2'), 1}, {digest('3'), 1}}}), 200);
  ASSERT_EQ(status().condemned.size(), 1U);
  begin_sweep();
  ASSERT_EQ(end({.kept = {digest('1'), digest('2'), digest('3')}}), 200);
  EXPECT_TRUE(status().condemned.empty()) << "somebody has use for it since";
}

TEST_F(Inventories, AHeadOfWhichNothingIsKnownIsNotMissed) {
  ASSERT_EQ(end({.unread = {digest('3')}}), 200);
  EXPECT_FALSE(is_suspect(archive()));
}

TEST_F(Inventories, WhatTheJobHasJustReadIsNotMissed) {
  report_loaded("b", api::Outcome::kError, std::nullopt, digest('3'));
  ASSERT_TRUE(is_suspect(archive()));
  ASSERT_EQ(begin_sweep().check, std::vector<std::string>{digest('3')});
  ASSERT_EQ(end({}, {digest('3')}), 200);
  EXPECT_FALSE(is_suspect(archive())) << "its blobs were read, whatever the list says";
}

TEST_F(AgentApi, ANodeWithoutALabelMakesTheLoaderWait) {
  auto node = std::make_shared<NodeView>();
  node->name = "n1";
  node->facts = {"", "amd64", "", ""};
  stores.nodes.upsert("n1", node);
  EXPECT_EQ(load("a").decision, api::LoadDecision::kWait);
  EXPECT_EQ(load("a").reason, "gpu_product_unknown");
  add_pod("cpu", "");
  EXPECT_EQ(load("cpu").gpu_product, "cpu-amd64");
}

TEST_F(AgentApi, PodsWithClaimsAndPodsWithLabelsShareArchives) {
  add_pod("claims", api::kClaimedDevices, {{"gpu"}});
  ASSERT_EQ(save("claims", '1'), 200);
  EXPECT_EQ(load("a").match, api::Match::kExact);
  devices = api::DeviceFacts{"NVIDIA-H100-80GB-HBM3", 2, ""};
  EXPECT_EQ(load("claims").decision, api::LoadDecision::kNone) << "it was given two";
  EXPECT_EQ(load("claims").key.at("GPUCount"), "2");
}

TEST_F(AgentApi, ClaimsThatTellNothingMakeAColdStartAndNoSave) {
  ASSERT_EQ(save("a", '1'), 200);
  add_pod("claims", api::kClaimedDevices, {{"gpu"}});
  Error unknown{ErrorCode::kInvalid, "no product"};
  unknown.reason = api::kDeviceUnknown;
  devices = unexpected(unknown);
  EXPECT_EQ(load("claims").decision, api::LoadDecision::kNone);
  EXPECT_EQ(load("claims").reason, api::kDeviceUnknown);
  const auto answer = call<api::SaveAnswer>(
      "/v1/saves", "claims",
      api::SaveRequest{.cache = "transformer", .attempt = "1", .new_files = 1});
  EXPECT_EQ(answer.decision, api::SaveDecision::kRefused);
  EXPECT_EQ(answer.reason, api::kDeviceUnknown);
  // A label that may still come is asked for again.
  Error unpublished{ErrorCode::kUnavailable, "no slice"};
  unpublished.reason = api::kDeviceNotPublished;
  devices = unexpected(unpublished);
  EXPECT_EQ(send("POST", "/v1/saves", "claims",
                 api::dump(api::SaveRequest{.cache = "transformer", .attempt = "2"}))
                .status,
            503);
}

TEST_F(AgentApi, OnlySoManyLoadAtOnceAndWhoIsDoneMakesRoom) {
  ASSERT_EQ(save("a", '1'), 200);
  const std::string store = api::store_of(cache, {})->id();
  for (int i = 0; i < 49; ++i) {
    ASSERT_TRUE(traffic
                    .begin({.tenant = {store, "ml"},
                            .pod_uid = "uid-of-" + std::to_string(i),
                            .budget = minutes(10)})
                    .granted);
  }
  EXPECT_EQ(load("b").decision, api::LoadDecision::kLoad);
  EXPECT_EQ(load("c").reason, "too_many_loads");
  report_loaded("b", api::Outcome::kSuccess, api::Match::kExact);
  EXPECT_EQ(load("c").decision, api::LoadDecision::kLoad);
}

// Of a registry that namespaces share.
TEST_F(AgentApi, ACrowdOfAnotherNamespaceCostsALoadTwoSeconds) {
  ASSERT_EQ(save("a", '1'), 200);
  const std::string store = api::store_of(cache, {})->id();
  for (int i = 0; i < 200; ++i) {
    traffic.begin({.tenant = {store, "crowd"},
                   .pod_uid = "uid-of-" + std::to_string(i),
                   .budget = minutes(10)});
  }
  const auto waits = load("b");
  EXPECT_EQ(waits.reason, "too_many_loads");
  EXPECT_LE(waits.retry_after_ms, 500);
  clock.advance(seconds(2));
  EXPECT_EQ(load("b").decision, api::LoadDecision::kLoad);
}

TEST_F(AgentApi, AWaitForAPlaceIsNoLongerThanTheWholeWait) {
  ASSERT_EQ(save("a", '1'), 200);
  const api::LoadRequest odd{
      .cache = "transformer", .waited_ms = 0, .waited_for_place_ms = 3'600'000};
  EXPECT_EQ(call<api::LoadAnswer>("/v1/load", "b", odd).decision, api::LoadDecision::kLoad);
}

}  // namespace
}  // namespace compilecache::controller
