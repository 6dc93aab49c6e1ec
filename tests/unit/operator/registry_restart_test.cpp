#include "operator/registry/registry_restart.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/time_format.hpp"
#include "operator/registry/registry_keeper.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// A restart of the registry's pod while a second pod serves reads.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;
using Step = RestartStep;

// A pod that runs while a restart is due and the reader is scaled up for it.
RestartFacts waiting_for_reader(const Clock& clock) {
  return {.mounted = true,
          .due = true,
          .runs = true,
          .has_reader = true,
          .reader_scaled_up = true,
          .reader_is_current = true,
          .requested = clock.wall(),
          .now = clock.wall()};
}

TEST(RestartStep, ThePodIsRestartedOnceTheReaderServes) {
  const FakeClock clock;
  RestartFacts facts = waiting_for_reader(clock);
  EXPECT_EQ(next_restart_step(facts), Step::kWait);
  facts.reader_ready = true;
  EXPECT_EQ(next_restart_step(facts), Step::kRestart);
  facts.reader_is_current = false;
  EXPECT_EQ(next_restart_step(facts), Step::kStartReader) << "it serves the certificate of before";
  facts.reader_scaled_up = facts.reader_ready = false;
  EXPECT_EQ(next_restart_step(facts), Step::kStartReader);
  facts.has_reader = false;
  EXPECT_EQ(next_restart_step(facts), Step::kRestart) << "none is installed";
}

TEST(RestartStep, AReaderThatDoesNotBecomeReadyDelaysForAMinute) {
  FakeClock clock;
  RestartFacts facts = waiting_for_reader(clock);
  clock.advance(seconds(59));
  facts.now = clock.wall();
  EXPECT_EQ(next_restart_step(facts), Step::kWait);
  clock.advance(seconds(1));
  facts.now = clock.wall();
  EXPECT_EQ(next_restart_step(facts), Step::kRestartAlone);
}

TEST(RestartStep, APodThatDoesNotServeWaitsForNoReader) {
  const FakeClock clock;
  RestartFacts facts = waiting_for_reader(clock);
  facts.runs = false;
  EXPECT_EQ(next_restart_step(facts), Step::kRestartAlone);
  facts.reader_ready = true;
  facts.reader_is_current = false;
  EXPECT_EQ(next_restart_step(facts), Step::kRestart) << "a reader that serves stays";
}

TEST(RestartStep, TheReaderEndsWithTheRestart) {
  FakeClock clock;
  RestartFacts facts = waiting_for_reader(clock);
  facts.due = facts.runs = false;
  facts.reader_ready = true;
  facts.started = clock.wall();
  EXPECT_EQ(next_restart_step(facts), Step::kWait);
  facts.runs = true;
  EXPECT_EQ(next_restart_step(facts), Step::kStopReader);
  // On another node it may be what the pod waits for.
  facts.runs = false;
  clock.advance(minutes(15));
  facts.now = clock.wall();
  EXPECT_EQ(next_restart_step(facts), Step::kStopReader);
  facts.reader_scaled_up = facts.reader_is_current = false;
  EXPECT_EQ(next_restart_step(facts), Step::kNone);
}

// The keeper, with a Deployment's controller that this test plays.
class RestartedRegistry : public ::testing::Test {
 protected:
  static constexpr char kDeployments[] = "/apis/apps/v1/deployments";

  struct Replica {
    Replica(const testing::FakeApiServer& server, const Clock& clock)
        : minter(clock, seeded_random(1)),
          keeper(test::client_of(server), {.ns = "system", .name = "images"},
                 {minter, [] { return true; }, [] { return KeyPair{}; }, seeded_random(2)}, clock) {
    }
    TokenMinter minter;
    RegistryKeeper keeper;
  };

  void SetUp() override {
    put("images", 1);
    put("images-reader", 0);
    round();
    set_ready("images", true);
    round();
    ASSERT_EQ(reader_replicas(), 0) << "a first start is no restart";
    clock.advance(minutes(1));
  }

  void put(const std::string& name, int replicas) {
    server.put(kDeployments,
               {{"metadata", {{"name", name}, {"namespace", "system"}}},
                {"spec", {{"replicas", replicas}, {"template", {{"metadata", json::object()}}}}}});
  }
  [[nodiscard]] json deployment(const std::string& name) const {
    return server.objects(kDeployments).at("system/" + name);
  }
  void set_ready(const std::string& name, bool ready) {
    json changed = deployment(name);
    const int pods = ready ? 1 : 0;
    changed["status"] = {{"observedGeneration", 1'000'000},
                         {"replicas", pods},
                         {"updatedReplicas", pods},
                         {"readyReplicas", pods}};
    server.put(kDeployments, changed);
  }
  [[nodiscard]] int reader_replicas() const {
    return deployment("images-reader").at("spec").at("replicas");
  }
  [[nodiscard]] std::string told() const {
    return deployment("images")
        .at("spec")
        .at("template")
        .at("metadata")
        .at("annotations")
        .at(kStartedAnnotation);
  }
  void round() {
    const auto done = replica->keeper.round();
    ASSERT_TRUE(done) << done.error().message;
  }
  // Another replica leads from now on.
  void change_leader() { replica = std::make_unique<Replica>(server, clock); }

  testing::FakeApiServer server;
  FakeClock clock;
  std::unique_ptr<Replica> replica = std::make_unique<Replica>(server, clock);
};

TEST_F(RestartedRegistry, ReadsGoOnWhileItIsRestarted) {
  const std::string before = told();
  ASSERT_TRUE(replica->keeper.start_anew());
  EXPECT_EQ(replica->keeper.started(), std::nullopt) << "no other restart is due";
  round();
  EXPECT_EQ(reader_replicas(), 1);
  round();
  EXPECT_EQ(told(), before) << "the reader does not serve yet";
  set_ready("images-reader", true);
  round();
  EXPECT_EQ(told(), format_time(clock.wall()));
  set_ready("images", false);
  round();
  EXPECT_EQ(reader_replicas(), 1);
  set_ready("images", true);
  round();
  EXPECT_EQ(reader_replicas(), 0);
  set_ready("images-reader", false);
  round();
  EXPECT_EQ(reader_replicas(), 0) << "once";
  EXPECT_EQ(replica->keeper.started(), clock.wall());
}

// Between any two steps.
TEST_F(RestartedRegistry, AnotherLeaderGoesOn) {
  ASSERT_TRUE(replica->keeper.start_anew());
  change_leader();
  round();
  EXPECT_EQ(reader_replicas(), 1);
  change_leader();
  set_ready("images-reader", true);
  round();
  EXPECT_EQ(told(), format_time(clock.wall()));
  set_ready("images", false);
  change_leader();
  round();
  EXPECT_EQ(reader_replicas(), 1);
  set_ready("images", true);
  change_leader();
  round();
  EXPECT_EQ(reader_replicas(), 0);
}

TEST_F(RestartedRegistry, AVolumeThatIsMountedOnceIsLeftToTheRegistry) {
  ASSERT_TRUE(replica->keeper.start_anew());
  round();
  EXPECT_EQ(reader_replicas(), 1);
  clock.advance(seconds(61));
  round();
  EXPECT_EQ(reader_replicas(), 0);
  EXPECT_EQ(told(), format_time(clock.wall()));
  set_ready("images", false);
  round();
  EXPECT_EQ(reader_replicas(), 0);
}

// Other certificates to mount: the reader runs with them before the registry does.
TEST_F(RestartedRegistry, OtherCertificatesAreServedByBoth) {
  server.put("/api/v1/secrets", {{"metadata", {{"name", "images-tls"}, {"namespace", "system"}}},
                                 {"data", {{"tls.crt", "dGhlaXJz"}}}});
  const std::string before = told();
  round();
  EXPECT_EQ(reader_replicas(), 1);
  EXPECT_EQ(told(), before);
  set_ready("images-reader", true);
  round();
  const auto mounted = [&](const std::string& name) {
    return deployment(name)
        .at("spec")
        .at("template")
        .at("metadata")
        .at("annotations")
        .at(kMountedAnnotation);
  };
  EXPECT_EQ(mounted("images"), mounted("images-reader"));
  EXPECT_NE(told(), before);
}

// One restart, whatever the clocks of the replicas say.
TEST_F(RestartedRegistry, ALeaderWhoseClockIsAheadCausesOneRestart) {
  clock.advance(minutes(10));
  ASSERT_TRUE(replica->keeper.start_anew());
  round();
  clock.advance(-minutes(10));
  change_leader();
  set_ready("images-reader", true);
  round();
  const std::string once = told();
  set_ready("images", true);
  for (int i = 0; i < 5; ++i) round();
  EXPECT_EQ(told(), once);
  EXPECT_EQ(reader_replicas(), 0);
}

// With the Role of a release that had no reader.
TEST_F(RestartedRegistry, WithoutTheRightToScaleItTheRegistryIsRestartedAtOnce) {
  for (int i = 0; i < 2; ++i) {
    server.script([](const testing::FakeRequest& request, testing::FakeConnection& connection) {
      if (request.path.find("images-reader") == std::string::npos) return false;
      connection.reply(403, testing::fake_status(403, "Forbidden", "no"));
      return true;
    });
  }
  ASSERT_TRUE(replica->keeper.start_anew());
  EXPECT_EQ(told(), format_time(clock.wall()));
  round();
  EXPECT_EQ(reader_replicas(), 0);
}

// Left by an operator that was uninstalled in the middle, or scaled by hand.
TEST_F(RestartedRegistry, AReaderThatNobodyNeedsIsScaledDown) {
  json left = deployment("images-reader");
  left["spec"]["replicas"] = 1;
  server.put(kDeployments, left);
  round();
  EXPECT_EQ(reader_replicas(), 0);
}

}  // namespace
}  // namespace compilecache::controller
