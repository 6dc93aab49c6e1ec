#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <thread>

#include "agent/coordinator.hpp"
#include "agent/load_race.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// An agent asks another replica while the leader does not answer.

namespace compilecache::agent::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Patience kLoadPatience{3000};

// A process that was stopped: the kernel takes its connections, and nobody answers.
class StoppedServer {
 public:
  StoppedServer(const char* address, int port) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(port));
    ::inet_pton(AF_INET, address, &where.sin_addr);
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&where), sizeof where), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
  }
  ~StoppedServer() { ::close(socket_); }
  StoppedServer(const StoppedServer&) = delete;
  StoppedServer& operator=(const StoppedServer&) = delete;

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
};

// `other_` is behind the Service of every replica, under the same port. The leader has another
// address in each test.
class OperatorClientTest : public AgentTest {
 protected:
  OperatorClientTest() {
    other_.set_head("sha256:" + std::string(64, 'a'), 4);
    std::ofstream(token_) << "token";
    config_.operator_port = other_.port();
    config_.operator_name = FakeOperator::kName;
    config_.operator_ca = other_.ca();
    config_.operator_address = "127.0.0.3";  // nobody listens there
    config_.load_address = "127.0.0.2";
    config_.token_file = token_;
  }
  ~OperatorClientTest() override { ::unlink(token_.c_str()); }

  [[nodiscard]] std::unique_ptr<Coordinator> coordinator() const {
    return make_operator_client(config_, SystemClock::instance(), seeded_random(1),
                                [](milliseconds time) {
                                  std::this_thread::sleep_for(time);
                                  return true;
                                });
  }
  Result<api::LoadAnswer> load() const {
    return coordinator()->load({.cache = "demo"}, kLoadPatience);
  }
  void expect_other_answers() {
    const auto answer = load();
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->decision, api::LoadDecision::kLoad);
    EXPECT_EQ(answer->generation, 4);
  }
  // A leader that can be asked, with its authority beside the other's.
  FakeOperator& leader() {
    if (!leader_) {
      leader_ = std::make_unique<FakeOperator>("127.0.0.4", other_.port());
      config_.operator_address = "127.0.0.4";
      config_.operator_ca += leader_->ca();
    }
    return *leader_;
  }

  FakeOperator other_{"127.0.0.2"};
  std::unique_ptr<FakeOperator> leader_;
  const std::string token_ = ::testing::TempDir() + "/token-" + std::to_string(::getpid());
};

TEST_F(OperatorClientTest, KilledLeaderAnotherReplicaAnswersTheLoad) { expect_other_answers(); }

TEST_F(OperatorClientTest, LeaderThatSays503AnotherReplicaAnswersTheLoad) {
  leader().script([](const Call&) { return error_response(503, "unavailable"); });
  expect_other_answers();
}

TEST_F(OperatorClientTest, StoppedLeaderAnotherReplicaAnswersTheLoad) {
  const StoppedServer stopped("127.0.0.3", other_.port());
  expect_other_answers();
}

TEST_F(OperatorClientTest, LeaderThatAnswersIsAskedAlone) {
  leader().set_head("sha256:" + std::string(64, 'b'), 5);
  const auto answer = load();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->generation, 5);
  EXPECT_TRUE(other_.calls("POST", "/").empty());
}

TEST_F(OperatorClientTest, LeaderThatRefusesThePodIsBelieved) {
  leader().script([](const Call&) { return error_response(403, "forbidden"); });
  const auto answer = load();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kForbidden);
  EXPECT_TRUE(other_.calls("POST", "/").empty());
}

TEST_F(OperatorClientTest, TokensToPullComeFromAnotherReplicaAndTokensToPushDoNot) {
  other_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/registry-token") return std::nullopt;
    return json_response({{"token", "t"}, {"expires_seconds", 60}});
  });
  const auto pull = coordinator()->registry_token({.push = false}, kLoadPatience);
  ASSERT_TRUE(pull) << pull.error().message;
  EXPECT_EQ(pull->token, "t");
  EXPECT_FALSE(coordinator()->registry_token({.push = true}, milliseconds(300)));
  EXPECT_EQ(other_.calls("POST", "/v1/registry-token").size(), 1u);
}

TEST_F(OperatorClientTest, ReportsGoToTheLeaderAlone) {
  EXPECT_FALSE(coordinator()->loaded({.cache = "demo"}, milliseconds(300)));
  EXPECT_FALSE(coordinator()->begin_save({.cache = "demo"}, milliseconds(300)));
  EXPECT_FALSE(coordinator()->effect({.cache = "demo"}, milliseconds(300)));
  EXPECT_TRUE(other_.calls("POST", "/").empty());
}

// A pod does not wait for the same silent leader at each of its calls.
TEST_F(OperatorClientTest, StoppedLeaderIsWaitedForOnce) {
  other_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/registry-token") return std::nullopt;
    return json_response({{"token", "t"}, {"expires_seconds", 60}});
  });
  std::promise<void> over;
  leader().script([until = over.get_future().share()](const Call&) {
    until.wait();
    return error_response(503, "unavailable");
  });
  FakeClock clock;
  milliseconds step{200};
  int sleeps = 0;
  const auto client = make_operator_client(config_, clock, seeded_random(1), [&](milliseconds) {
    clock.advance(step);
    return ++sleeps < 200;
  });
  EXPECT_TRUE(client->load({.cache = "demo"}, seconds(60)));
  step = milliseconds(0);  // no time passes any more
  sleeps = 0;
  const auto pull = client->registry_token({.push = false}, seconds(60));
  over.set_value();
  ASSERT_TRUE(pull) << pull.error().message;
  EXPECT_EQ(pull->token, "t");
}

TEST_F(OperatorClientTest, ReportOfALoadThatAnotherReplicaAnsweredIsTriedForAMoment) {
  int sleeps = 0;
  const auto client = make_operator_client(config_, SystemClock::instance(), seeded_random(1),
                                           [&](milliseconds time) {
                                             std::this_thread::sleep_for(time);
                                             sleeps += time.count() > 0 ? 1 : 0;
                                             return true;
                                           });
  ASSERT_TRUE(client->load({.cache = "demo"}, kLoadPatience));
  sleeps = 0;
  EXPECT_FALSE(client->loaded({.cache = "demo"}, kLoadPatience));
  EXPECT_LE(sleeps, 2) << "the saver repeats it";
  EXPECT_TRUE(other_.calls("POST", "/v1/loaded").empty());
}

// As an operator of an earlier release injects it.
TEST_F(OperatorClientTest, WithoutASecondAddressTheLeaderIsAskedAlone) {
  config_.load_address.clear();
  const auto answer = coordinator()->load({.cache = "demo"}, milliseconds(300));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(other_.calls("POST", "/").empty());
}

TEST_F(OperatorClientTest, NobodyAnswersTheErrorIsTheLeaders) {
  config_.load_address = "127.0.0.5";
  const auto answer = coordinator()->load({.cache = "demo"}, milliseconds(500));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("127.0.0.3"), std::string::npos) << answer.error().message;
}

// --- the race itself --------------------------------------------------------------------------

// Waits until the call is ended.
Result<std::string> hang(std::atomic<int>& ended, const std::stop_token& stop) {
  while (!stop.stop_requested()) std::this_thread::sleep_for(milliseconds(1));
  ++ended;
  return fail(ErrorCode::kTimeout, "stopped");
}

class RaceTest : public ::testing::Test {
 protected:
  std::atomic<int> ended_{0}, asked_{0};
  std::atomic<bool> goes_on_{true};
  RaceParts parts_{SystemClock::instance(), seeded_random(1), [this](milliseconds time) {
                     std::this_thread::sleep_for(time);
                     return goes_on_.load();
                   }};
};

// The Service leads a part of the connections to a replica that was stopped.
TEST_F(RaceTest, StoppedReplicasAnotherConnectionGetsTheAnswerAndNoCallGoesOn) {
  const RaceCalls calls{[&](milliseconds, std::stop_token stop) { return hang(ended_, stop); },
                        [&](milliseconds, std::stop_token stop) -> Result<std::string> {
                          if (++asked_ < 3) return hang(ended_, stop);
                          return "warm";
                        }};
  const auto answer = race(calls, seconds(20), parts_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, "warm");
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(ended_, 3) << "two replicas and the leader";
}

TEST_F(RaceTest, LeaderThatComesBackIsAskedAgain) {
  std::atomic<int> leader{0};
  const RaceCalls calls{[&](milliseconds, std::stop_token) -> Result<std::string> {
                          if (++leader < 3) return fail(ErrorCode::kUnavailable, "refused");
                          return "from the leader";
                        },
                        [](milliseconds, std::stop_token) -> Result<std::string> {
                          return fail(ErrorCode::kUnavailable, "not synced");
                        }};
  const auto answer = race(calls, seconds(20), parts_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, "from the leader");
}

TEST_F(RaceTest, AnotherReplicaThatRefusesDoesNotOutdoTheLeader) {
  std::atomic<int> leader{0};
  const RaceCalls calls{[&](milliseconds, std::stop_token) -> Result<std::string> {
                          if (++leader < 3) return fail(ErrorCode::kUnavailable, "starting");
                          return "from the leader";
                        },
                        [](milliseconds, std::stop_token) -> Result<std::string> {
                          return fail(ErrorCode::kForbidden, "unknown here");
                        }};
  const auto answer = race(calls, seconds(20), parts_);
  ASSERT_TRUE(answer);
  EXPECT_EQ(*answer, "from the leader");
}

TEST_F(RaceTest, ProcessThatHasToEndWaitsNoLonger) {
  goes_on_ = false;
  const RaceCalls calls{[&](milliseconds, std::stop_token stop) { return hang(ended_, stop); },
                        [&](milliseconds, std::stop_token stop) { return hang(ended_, stop); }};
  EXPECT_FALSE(race(calls, std::chrono::hours(1), parts_));
}

}  // namespace
}  // namespace compilecache::agent::testing
