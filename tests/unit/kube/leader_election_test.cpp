#include "kube/leader_election.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/kube/server_test.hpp"

namespace compilecache::kube {
namespace {

using std::chrono::seconds;

const std::string kLeases = "/apis/coordination.k8s.io/v1/leases";

// One process that runs for leader.
struct Runner {
  Runner(const Client& client, const std::string& identity, lease::Config config = {})
      : elector(client, {.ns = "sys", .name = "operator", .lease = named(config, identity)},
                {.on_started = [this] { ++started; }, .on_lost = [this] { ++lost; }}) {}
  static lease::Config named(lease::Config config, const std::string& identity) {
    config.identity = identity;
    return config;
  }
  std::atomic<int> started{0};
  std::atomic<int> lost{0};
  LeaderElector elector;
};

class LeaderElectionTest : public ServerTest {
 protected:
  Json lease() const { return server.objects(kLeases).at("sys/operator"); }
};

TEST_F(LeaderElectionTest, TheFirstCreatesTheLeaseAndLeads) {
  Runner one(client, "one");
  ASSERT_TRUE(one.elector.start());
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  EXPECT_EQ(lease()["spec"]["holderIdentity"], "one");
  EXPECT_EQ(lease()["spec"]["leaseDurationSeconds"], 15);
  EXPECT_EQ(one.elector.leader(), "one");
  EXPECT_TRUE(soon([&] { return one.started == 1; }));
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenOverWithoutWaitingForItsEnd) {
  Runner one(client, "one");
  Runner two(client, "two");
  one.elector.start();
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  two.elector.start();
  ASSERT_TRUE(soon([&] { return two.elector.leader() == "one"; }));
  EXPECT_FALSE(two.elector.is_leader());
  one.elector.stop();
  EXPECT_EQ(lease()["spec"]["holderIdentity"], "");
  ASSERT_TRUE(soon([&] { return two.elector.is_leader(); }));
  EXPECT_EQ(two.elector.transitions(), 1);
  EXPECT_EQ(one.lost, 0) << "who stops by itself has lost nothing";
}

TEST_F(LeaderElectionTest, WhoFindsAnotherHolderStopsLeading) {
  Runner one(client, "one");
  one.elector.start();
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  Json taken = lease();
  taken["spec"]["holderIdentity"] = "thief";
  server.put(kLeases, taken);
  EXPECT_TRUE(soon([&] { return one.lost == 1; }));
  EXPECT_FALSE(one.elector.is_leader());
  one.elector.stop();
  EXPECT_EQ(lease()["spec"]["holderIdentity"], "thief")
      << "another replica's lease is not released";
}

TEST_F(LeaderElectionTest, WhoCannotRenewForTheDeadlineLosesAndAnotherLeadsLater) {
  const lease::Config quick{
      .lease_duration = seconds(4), .renew_deadline = seconds(3), .retry_period = seconds(1)};
  Runner one(client, "one", quick);
  one.elector.start();
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  for (int i = 0; i < 100; ++i) reply_once(500, fake_status(500, "InternalError", "etcd is away"));
  EXPECT_TRUE(soon([&] { return one.lost == 1; }));
  EXPECT_FALSE(one.elector.is_leader());
}

TEST_F(LeaderElectionTest, AServerThatHangsDoesNotMakeTheLossLate) {
  const lease::Config quick{
      .lease_duration = seconds(30), .renew_deadline = seconds(3), .retry_period = seconds(1)};
  Runner one(client, "one", quick);
  one.elector.start();
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  for (int i = 0; i < 10; ++i) hang_once();
  ASSERT_TRUE(soon([&] { return one.lost == 1; }));
  EXPECT_EQ(server.objects(kLeases).size(), 1U);
  EXPECT_FALSE(one.elector.is_leader());
}

// For the others the time runs from when the server has written it, which was before the answer.
TEST_F(LeaderElectionTest, ARenewalCountsFromWhenItWasBegun) {
  FakeClock clock;
  server.script([&](const FakeRequest& request, FakeConnection&) {
    if (request.method == "POST") clock.advance(seconds(8));  // so long the answer takes
    return false;
  });
  LeaderElector elector(client, {.ns = "sys", .name = "operator", .lease = {.identity = "one"}}, {},
                        clock);
  ASSERT_TRUE(elector.start());
  ASSERT_TRUE(soon([&] { return elector.is_leader(); }));
  clock.advance(seconds(3));
  EXPECT_FALSE(elector.is_leader()) << "11 s after its last renewal was begun";
}

// Notes how long each request may take.
class NotingTransport : public HttpTransport {
 public:
  explicit NotingTransport(std::shared_ptr<HttpTransport> real) : real_(std::move(real)) {}
  Result<HttpResponse> fetch(const HttpRequest& request, const BodyHandler& on_body,
                             const Cancellation& cancel) override {
    {
      const std::lock_guard lock(mutex_);
      timeouts_.push_back(request.timeout);
    }
    return real_->fetch(request, on_body, cancel);
  }
  StreamEnd stream(const HttpRequest& request, const LineHandler& on_line,
                   const Cancellation& cancel) override {
    return real_->stream(request, on_line, cancel);
  }
  [[nodiscard]] std::vector<std::chrono::milliseconds> timeouts() const {
    const std::lock_guard lock(mutex_);
    return timeouts_;
  }

 private:
  const std::shared_ptr<HttpTransport> real_;
  mutable std::mutex mutex_;
  std::vector<std::chrono::milliseconds> timeouts_;
};

TEST_F(LeaderElectionTest, NoRequestMayTakeLongerThanTheLeaseAllows) {
  const auto noting = std::make_shared<NotingTransport>(transport);
  FakeClock clock;
  LeaderElector elector(Client(noting),
                        {.ns = "sys",
                         .name = "operator",
                         .lease = {.identity = "one",
                                   .lease_duration = seconds(30),
                                   .renew_deadline = seconds(20),
                                   .retry_period = seconds(1)}},
                        {}, clock);
  ASSERT_TRUE(elector.start());
  ASSERT_TRUE(soon([&] { return elector.is_leader(); }));
  for (const auto timeout : noting->timeouts()) EXPECT_EQ(timeout, seconds(10)) << "half of it";
  clock.advance(seconds(19));
  EXPECT_TRUE(soon([&] {
    const auto all = noting->timeouts();
    return std::any_of(all.begin(), all.end(), [](auto timeout) { return timeout <= seconds(1); });
  })) << "no longer than what is left of it";
}

TEST_F(LeaderElectionTest, OtherFieldsOfTheLeaseAreKept) {
  server.put(kLeases,
             {{"metadata", {{"namespace", "sys"}, {"name", "operator"}, {"labels", {{"a", "b"}}}}},
              {"spec", {{"holderIdentity", ""}}}});
  Runner one(client, "one");
  one.elector.start();
  ASSERT_TRUE(soon([&] { return one.elector.is_leader(); }));
  EXPECT_EQ(lease()["metadata"]["labels"]["a"], "b");
}

TEST_F(LeaderElectionTest, NumbersThatDoNotFitAreRefusedAtTheStart) {
  Runner one(client, "");
  EXPECT_EQ(one.elector.start().error().code, ErrorCode::kInvalid);
}

}  // namespace
}  // namespace compilecache::kube
