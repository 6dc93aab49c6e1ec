#include "http/resolver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace compilecache::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

steady_clock::time_point in_a_minute() { return steady_clock::now() + std::chrono::minutes(1); }

TEST(Resolver, TheSystemKnowsThisMachine) {
  const auto addresses = Resolver().resolve("localhost", in_a_minute());
  ASSERT_TRUE(addresses) << addresses.error().message;
  EXPECT_THAT(*addresses, Contains("127.0.0.1"));
}

TEST(Resolver, AnAddressIsItsOwn) {
  Resolver resolver([](const std::string&) -> Resolver::Addresses {
    ADD_FAILURE() << "somebody was asked";
    return fail(ErrorCode::kInternal, "");
  });
  EXPECT_THAT(*resolver.resolve("10.0.0.1", in_a_minute()), ElementsAre("10.0.0.1"));
  EXPECT_THAT(*resolver.resolve("fd00::1", in_a_minute()), ElementsAre("fd00::1"));
}

TEST(Resolver, AnUnknownNameIsUnavailable) {
  const auto addresses = Resolver().resolve("no-such-host.invalid", in_a_minute());
  ASSERT_FALSE(addresses);
  EXPECT_EQ(addresses.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(addresses.error().message, HasSubstr("no-such-host.invalid"));
}

// A name server that is silent until the test lets it answer.
TEST(Resolver, ASilentNameServerIsLeftBehindAndNotAskedTwice) {
  std::promise<void> answer;
  const std::shared_future<void> answered = answer.get_future().share();
  const auto asked = std::make_shared<std::atomic<int>>(0);
  Resolver resolver([answered, asked](const std::string& host) -> Resolver::Addresses {
    ++*asked;
    answered.wait();
    return std::vector<std::string>{host + "'s"};
  });
  for (int i = 0; i < 3; ++i) {
    const auto addresses = resolver.resolve("slow", steady_clock::now() + milliseconds(20));
    ASSERT_FALSE(addresses);
    EXPECT_EQ(addresses.error().code, ErrorCode::kTimeout);
    EXPECT_THAT(addresses.error().message, HasSubstr("slow"));
  }
  answer.set_value();
  EXPECT_THAT(*resolver.resolve("slow", in_a_minute()), ElementsAre("slow's"));
  EXPECT_LE(*asked, 2);  // the last one may have come after the answer
  EXPECT_THAT(*resolver.resolve("other", in_a_minute()), ElementsAre("other's"));
}

TEST(Resolver, IsGoneBeforeItsAnswer) {
  std::promise<void> answer;
  const std::shared_future<void> answered = answer.get_future().share();
  {
    Resolver resolver([answered](const std::string&) -> Resolver::Addresses {
      answered.wait();
      return std::vector<std::string>{"late"};
    });
    EXPECT_FALSE(resolver.resolve("slow", steady_clock::now()));
  }
  answer.set_value();
}

}  // namespace
}  // namespace compilecache::http
