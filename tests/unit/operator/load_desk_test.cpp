#include "operator/agents/load_desk.hpp"

#include <gtest/gtest.h>

#include "operator/agents/agent_routes.hpp"
#include "operator/archives/archive_trust.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"

// Loads that a replica answers without being the leader. The fixture's agent_api is the leader,
// whose writes this replica sees.

namespace compilecache::controller::test {
namespace {

// The API server as a replica reads it, which may not answer.
class Reads : public ArchiveClient {
 public:
  explicit Reads(FakeArchives& archives) : archives_(archives) {}
  Result<api::CompileCacheArchive> get(const std::string& ns, const std::string& name) override {
    if (!answers) return fail(ErrorCode::kTimeout, "no answer in time");
    return archives_.get(ns, name);
  }
  Result<std::vector<api::CompileCacheArchive>> list(const std::string&,
                                                     const std::string&) override {
    return fail(ErrorCode::kInternal, "not for loads");
  }
  Result<api::CompileCacheArchive> create(const api::CompileCacheArchive&) override {
    return fail(ErrorCode::kInternal, "not for loads");
  }
  Result<api::CompileCacheArchive> update_status(const api::CompileCacheArchive&) override {
    return fail(ErrorCode::kInternal, "not for loads");
  }
  bool answers = true;

 private:
  FakeArchives& archives_;
};

class LoadDeskTest : public AgentApiTest {
 protected:
  http::Response ask(const std::string& method, const std::string& path, const std::string& token,
                     const std::string& body) {
    http::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.headers = {{"Authorization", "Bearer " + token}};
    return desk.answer(request);
  }
  // Nothing: 503, ask the leader.
  std::optional<api::LoadAnswer> load_here(const std::string& pod) {
    const auto response =
        ask("POST", "/v1/load", pod, api::dump(api::LoadRequest{.cache = "transformer"}));
    if (response.status == 503) return std::nullopt;
    EXPECT_EQ(response.status, 200) << response.body;
    return api::parse<api::LoadAnswer>(response.body).value_or(api::LoadAnswer{});
  }
  void save_one() {
    load("a");
    ASSERT_EQ(save("a", '1'), 200);
    heard = clock.monotonic();
  }
  // By the leader. `shown`: this replica's watch has the event.
  void quarantine(bool shown) {
    if (!shown) archives.on_write = [](const auto&, const auto&) {};
    const auto marked =
        modify_archive(archives, "ml", archive().metadata.name, [&](api::CompileCacheArchive& one) {
          return mark_suspect(one, digest('1'), "a", format_time(clock.wall()));
        });
    ASSERT_TRUE(marked) << marked.error().message;
  }

  std::optional<Monotonic> heard;
  bool synced = true;
  Reads reads{archives};
  LoadTraffic own_traffic{LoadDesk::places(settings), clock};
  LoadDesk desk{{.view = view,
                 .auth = auth,
                 .traffic = own_traffic,
                 .archives = reads,
                 .heard = [this] { return heard; },
                 .has_synced = [this] { return synced; },
                 .fetch_pod = [](const std::string&, const std::string&) -> Result<PodView> {
                   return fail(ErrorCode::kNotFound, "no such pod");
                 },
                 .devices = [this](const PodView&, const std::string&) { return devices; },
                 .minter = &minter},
                settings,
                clock};
};

TEST_F(LoadDeskTest, APodGetsTheArchiveThatTheLeaderWouldName) {
  save_one();
  const auto here = load_here("b");
  ASSERT_TRUE(here);
  EXPECT_EQ(here->decision, api::LoadDecision::kLoad);
  EXPECT_EQ(here->match, api::Match::kExact);
  EXPECT_EQ(here->manifest_digest, digest('1'));
  EXPECT_EQ(api::dump(*here), api::dump(load("b")));
}

TEST_F(LoadDeskTest, WithoutAnArchiveAPodThatDoesNotWaitIsColdAtOnce) {
  const auto here = load_here("b");
  ASSERT_TRUE(here);
  EXPECT_EQ(here->decision, api::LoadDecision::kNone);
  EXPECT_EQ(here->reason, "no_archive");
}

TEST_F(LoadDeskTest, APodThatWaitsForTheFirstAsksTheLeaderUnlessThereIsAnArchive) {
  wait_for_first = minutes(2);
  add_pod("b");
  EXPECT_FALSE(load_here("b"));
  save_one();
  ASSERT_TRUE(load_here("b"));
}

TEST_F(LoadDeskTest, APodOfAGroupAsksTheLeader) {
  save_one();
  put_into_group("b", "lws", 1);
  EXPECT_FALSE(load_here("b"));
}

TEST_F(LoadDeskTest, AllElseIsTheLeaders) {
  save_one();
  for (const Route& route : agent_routes()) {
    if (route.serve_anywhere != nullptr) continue;
    const std::string path = std::string(route.path);
    EXPECT_EQ(ask(std::string(route.method), path, "a", "{}").status, 503) << path;
  }
  EXPECT_EQ(
      ask("POST", "/v1/registry-token", "a", api::dump(api::RegistryTokenRequest{.push = true}))
          .status,
      503);
  EXPECT_EQ(ask("POST", "/v1/nothing", "a", "{}").status, 404);
}

TEST_F(LoadDeskTest, StrangersAreRefused) {
  save_one();
  EXPECT_EQ(ask("POST", "/v1/load", "stranger", "{}").status, 401);
}

TEST_F(LoadDeskTest, BeforeItsWatchesHaveShownAllItSaysNothing) {
  save_one();
  synced = false;
  EXPECT_FALSE(load_here("b"));
}

TEST_F(LoadDeskTest, ASweepJobThatItHasNotHeardOfMayExist) {
  cache.status.sweep_job = "another";
  put_cache();
  EXPECT_EQ(ask("POST", "/v1/registry-token", "job", "{}").status, 503);
}

TEST_F(LoadDeskTest, ACompileCacheThatItHasNotHeardOfMayExist) {
  stores.caches.erase("ml/transformer", nullptr);
  EXPECT_FALSE(load_here("b"));
}

TEST_F(LoadDeskTest, AQuarantineThatItsWatchHasNotShownCounts) {
  save_one();
  quarantine(false);
  const auto here = load_here("b");
  ASSERT_TRUE(here);
  EXPECT_EQ(here->decision, api::LoadDecision::kNone);
  EXPECT_EQ(here->reason, "suspect");
}

TEST_F(LoadDeskTest, AnArchiveThatIsGoneIsNotHandedOut) {
  save_one();
  archives.archives.clear();
  const auto here = load_here("b");
  ASSERT_TRUE(here);
  EXPECT_EQ(here->decision, api::LoadDecision::kNone);
}

TEST_F(LoadDeskTest, WithoutAnAnswerOfTheApiServerItsWatchCountsForAMinute) {
  save_one();
  reads.answers = false;
  clock.advance(seconds(60));
  EXPECT_TRUE(load_here("b"));
  clock.advance(seconds(1));
  EXPECT_FALSE(load_here("b"));
  reads.answers = true;
  EXPECT_TRUE(load_here("b"));
}

TEST_F(LoadDeskTest, AWatchThatWasNeverHeardIsNotBelieved) {
  save_one();
  heard.reset();
  reads.answers = false;
  EXPECT_FALSE(load_here("b"));
}

TEST_F(LoadDeskTest, ItHasHalfOfThePlaces) {
  settings.limits.max_concurrent_loads = 50;
  EXPECT_EQ(LoadDesk::places(settings), 25);
  settings.limits.max_concurrent_loads = 1;
  EXPECT_EQ(LoadDesk::places(settings), 1);
  save_one();
  int loads = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "many-" + std::to_string(i);
    add_pod(name);
    if (load_here(name)) ++loads;
  }
  EXPECT_EQ(loads, 25) << "the others ask the leader";
}

// The leader's own watch may be dead, too.
TEST_F(LoadDeskTest, TheLeaderHandsOutNothingQuarantinedLongerThanAMinute) {
  save_one();
  const FreshArchives fresh({reads, [this] { return heard; }, FreshArchives::Ask::kWhenSilent},
                            clock);
  AgentApi leader{{view, auth, saves, locks, guard, archives, registry, traffic, crashes, stats,
                   pods, metrics, events, &minter, &usage, &repositories, &fresh},
                  settings,
                  {.is_leader = [] { return true; }},
                  clock};
  http::Request request;
  request.method = "POST";
  request.path = "/v1/load";
  request.body = api::dump(api::LoadRequest{.cache = "transformer"});
  request.headers = {{"Authorization", "Bearer b"}};
  const auto decision = [&] {
    const auto response = leader.answer(request);
    if (response.status != 200) return std::string("503");
    return std::string(api::to_string(api::parse<api::LoadAnswer>(response.body)->decision));
  };
  quarantine(false);
  EXPECT_EQ(decision(), "load") << "its watch is alive; the event is under way";
  clock.advance(seconds(61));
  EXPECT_EQ(decision(), "none");
  reads.answers = false;
  EXPECT_EQ(decision(), "503");
}

}  // namespace
}  // namespace compilecache::controller::test
