// A change of leader, in every way it happens: what one leader began the next one finishes, and one
// that was deposed does nothing any more. The times are printed, not judged.

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <thread>

#include "tests/integration/operator_fixture.hpp"

namespace compilecache::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class LeadershipTest : public OperatorTest {
 protected:
  static std::unique_ptr<OperatorProcess> standby() {
    auto next = std::make_unique<OperatorProcess>(kSettings);
    EXPECT_TRUE(eventually(seconds(60), [&] { return next->ready(); })) << next->log();
    return next;
  }

  // Until `next` answers agents; prints how long that took from `since`.
  void takes_over(const OperatorProcess& next, const std::string& token, const char* after,
                  Clock::time_point since) const {
    bool serves = false;
    while (!serves && Clock::now() < since + seconds(90)) {
      std::this_thread::sleep_for(milliseconds(50));
      if (!next.leads()) continue;
      // Every replica answers loads; only the leader answers saves.
      serves = next.call("PUT", "/v1/saves/none-1", token, {{"fence", 1}}).first != 503;
    }
    EXPECT_TRUE(serves) << next.log();
    std::cout << "the next leader serves " << after << " after "
              << std::chrono::duration_cast<milliseconds>(Clock::now() - since).count() << " ms\n";
  }

  [[nodiscard]] std::string version(const std::vector<std::string>& what) const {
    return at(read(what), "/metadata/resourceVersion").dump();
  }

  [[nodiscard]] int counted() const {
    const json missing = at(status("app"), "/loads/missing");
    return missing.is_number() ? missing.get<int>() : 0;
  }

  // Of ten new pods, by that replica: how many are to load `manifest`.
  [[nodiscard]] int warm_by(const OperatorProcess& replica, const std::vector<std::string>& tokens,
                            const json& manifest) const {
    int warm = 0;
    for (const std::string& token : tokens) {
      const auto [status, answer] = replica.call("POST", "/v1/load", token, {{"cache", "app"}});
      if (status == 200 && at(answer, "/decision") == "load" &&
          at(answer, "/manifest_digest") == manifest) {
        ++warm;
      }
    }
    return warm;
  }
  [[nodiscard]] std::vector<std::string> ten_pods(const std::string& name) const {
    std::vector<std::string> tokens;
    for (int i = 0; i < 10; ++i) {
      tokens.push_back(run_pod(name + "-" + std::to_string(i), "app"));
    }
    return tokens;
  }

  void report_cold(const std::string& token) const {
    EXPECT_EQ(process
                  ->call("POST", "/v1/loaded", token,
                         {{"cache", "app"}, {"outcome", "DOES_NOT_EXIST"}, {"source", "operator"}})
                  .first,
              200);
  }
};

TEST_F(LeadershipTest, WhoeverLeadsNextGoesOnAndWhoLedBeforeStops) {
  make_ready_cache("app");
  const std::string first = run_pod("first", "app");
  report_cold(first);
  ASSERT_TRUE(eventually(seconds(20), [&] { return counted() == 1; }));
  const json save = granted(first, "app", "a1");

  // The leader is paused for longer than its lease, in the middle of a save.
  auto next = standby();
  const std::unique_ptr<OperatorProcess> paused = std::move(process);
  const auto stopped = Clock::now();
  paused->send_signal(SIGSTOP);
  auto late = std::async(std::launch::async, [&] {
    try {  // sent while it is paused, to be answered when it goes on
      return paused
          ->call("POST", "/v1/saves/" + save.at("id").get<std::string>() + "/commit", first,
                 {{"fence", save.at("fence")},
                  {"manifest_digest", digest("manifest late")},
                  {"blobs", {digest("manifest late")}},
                  {"compressed_bytes", 1}})
          .first;
    } catch (const std::exception&) {
      return 0;  // it ended before it answered
    }
  });
  takes_over(*next, first, "a pause", stopped);
  process = std::move(next);
  // The save goes on under the new leader, with the fence that the old one gave it.
  EXPECT_EQ(process
                ->call("PUT", "/v1/saves/" + save.at("id").get<std::string>(), first,
                       {{"fence", save.at("fence")}})
                .first,
            200);
  const auto [committed, head] = commit(first, save, "one");
  EXPECT_EQ(committed, 200) << head;
  // Something for the paused one to react to.
  kubectl({"patch", "compilecache", "app", "-n", ns, "--type=merge", "-p",
           R"({"spec": {"version": "2"}})"});
  ASSERT_TRUE(eventually(seconds(20), [&] {
    const json now = status("app");
    return at(now, "/archives") == 1 && at(now, "/saves/committed") == 1 &&
           at(now, "/observedGeneration") == 2 && at(now, "/lastSweep/time").is_string();
  })) << status("app");
  std::this_thread::sleep_for(seconds(1));
  const std::string cache_before = version({"compilecache", "app", "-n", ns});
  const std::vector<json> archives = read_list({"compilecachearchives", "-n", ns});

  paused->send_signal(SIGCONT);
  EXPECT_EQ(paused->wait(), 1) << "it ends as one that lost the lease";
  EXPECT_NE(paused->log().find("lost the lease: ending at once"), std::string::npos)
      << paused->log();
  EXPECT_NE(late.get(), 200) << "a commit to the old leader is refused";
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(version({"compilecache", "app", "-n", ns}), cache_before);
  EXPECT_EQ(read_list({"compilecachearchives", "-n", ns}), archives);
  EXPECT_EQ(at(archives.at(0), "/status/head/manifestDigest"), head.at("manifest_digest"));
  EXPECT_EQ(
      at(read({"endpointslice", api::kAgentService, "-n", kOperatorNamespace}), "/ports/0/port"),
      process->agent_port());
  EXPECT_TRUE(process->leads());
  EXPECT_EQ(counted(), 1);

  // A clean end: what was not written yet is written, and the lease given back.
  next = standby();
  const std::string second = run_pod("second", "app");
  report_cold(second);
  const auto asked = Clock::now();
  process->send_signal(SIGTERM);
  takes_over(*next, second, "a clean end", asked);
  EXPECT_EQ(process->wait(), 0) << process->log();
  process = std::move(next);
  EXPECT_EQ(counted(), 2);

  // Killed: what is lost is at most what came in one status interval.
  next = standby();
  const std::string third = run_pod("third", "app");
  const json unfinished = granted(third, "app", "c1");
  report_cold(third);
  ASSERT_TRUE(eventually(seconds(20), [&] { return counted() == 3; }));
  const auto killed = Clock::now();
  process->send_signal(SIGKILL);
  process->wait();
  takes_over(*next, third, "a kill", killed);
  process = std::move(next);
  EXPECT_EQ(commit(third, unfinished, "three").first, 200) << process->log();
  EXPECT_TRUE(eventually(seconds(20), [&] {
    return at(status("app"), "/saves/committed") == 2 && counted() == 3;
  })) << status("app");
}

TEST_F(LeadershipTest, WhileTheLeaderIsGoneTheOtherReplicaAnswersLoads) {
  make_ready_cache("app");
  const std::string first = run_pod("first", "app");
  const auto [committed, head] = commit(first, granted(first, "app", "a1"), "one");
  ASSERT_EQ(committed, 200) << head;
  auto other = standby();
  const json manifest = head.at("manifest_digest");
  const std::vector<std::string> before = ten_pods("before");
  ASSERT_TRUE(eventually(seconds(20), [&] { return warm_by(*other, before, manifest) == 10; }))
      << other->log();
  ASSERT_TRUE(leads());
  EXPECT_EQ(other->call("POST", "/v1/saves", first, {{"cache", "app"}, {"attempt", "x"}}).first,
            503)
      << "saves are the leader's";

  const std::vector<std::string> stopped = ten_pods("stopped");
  process->send_signal(SIGSTOP);
  EXPECT_EQ(warm_by(*other, stopped, manifest), 10) << other->log();
  process->send_signal(SIGCONT);
  ASSERT_TRUE(eventually(seconds(20), [] { return leads(); })) << process->log();

  const std::vector<std::string> killed = ten_pods("killed");
  process->send_signal(SIGKILL);
  process->wait();
  EXPECT_EQ(warm_by(*other, killed, manifest), 10) << other->log();
  process = std::move(other);
  ASSERT_TRUE(eventually(seconds(60), [] { return leads(); })) << process->log();
}

TEST_F(LeadershipTest, AContainerThatIsStartedAgainResumesItsLease) {
  ASSERT_EQ(process->end(), 0);
  ::setenv("POD_NAME", "compilecache-operator-0", 1);
  ::setenv("POD_UID", "5b1b9a2e-0000-4000-8000-000000000001", 1);
  process = standby();
  ASSERT_TRUE(eventually(seconds(60), [] { return leads(); })) << process->log();
  const auto lease = [] {
    return at(read({"lease", "compilecache-operator", "-n", kOperatorNamespace}), "/spec");
  };
  const json before = lease();
  EXPECT_EQ(at(before, "/holderIdentity"),
            "compilecache-operator-0_5b1b9a2e-0000-4000-8000-000000000001");
  process->send_signal(SIGKILL);
  process->wait();
  process->start_again();
  ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
      << process->log();
  EXPECT_EQ(at(lease(), "/acquireTime"), at(before, "/acquireTime")) << "it waited for itself";
  EXPECT_EQ(at(lease(), "/leaseTransitions"), at(before, "/leaseTransitions"));
  ::unsetenv("POD_NAME");
  ::unsetenv("POD_UID");
}

}  // namespace
}  // namespace compilecache::testing
