#include "kube/event_aggregator.hpp"

#include <gtest/gtest.h>

#include <set>

namespace compilecache::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

EventRecord record(const std::string& message, const std::string& name = "web") {
  return {.object = {"apps/v1", "Deployment", "ml", name, "uid-" + name},
          .type = EventType::kWarning,
          .reason = "InjectionSkipped",
          .message = message};
}

class EventAggregatorTest : public ::testing::Test {
 protected:
  std::optional<EventAggregator::Write> add(const EventRecord& what) {
    return aggregator.add(what, clock.monotonic(), clock.wall());
  }
  FakeClock clock;
  EventAggregator aggregator;
};

TEST_F(EventAggregatorTest, ARepeatRaisesTheCountOfTheSameEvent) {
  const auto first = add(record("claim missing"));
  clock.advance(seconds(30));
  const auto second = add(record("claim missing"));
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(first->create);
  EXPECT_FALSE(second->create);
  EXPECT_EQ(second->name, first->name);
  EXPECT_EQ(second->count, 2);
  EXPECT_EQ(second->first, first->first);
  EXPECT_EQ(second->last - first->last, seconds(30));
}

TEST_F(EventAggregatorTest, AnotherMessageReasonOrObjectIsAnotherEvent) {
  std::set<std::string> names;
  names.insert(add(record("one"))->name);
  names.insert(add(record("two"))->name);
  names.insert(add(record("one", "api"))->name);
  EventRecord other = record("one");
  other.reason = "Injected";
  names.insert(add(other)->name);
  EXPECT_EQ(names.size(), 4U);
}

TEST_F(EventAggregatorTest, TheEleventhSimilarMessageIsCombined) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(add(record("pod " + std::to_string(i)))->create);
  const auto eleventh = add(record("pod 10"));
  const auto twelfth = add(record("pod 11"));
  EXPECT_TRUE(eleventh->create);
  EXPECT_EQ(eleventh->record.message, "(combined from similar events): pod 10");
  EXPECT_FALSE(twelfth->create);
  EXPECT_EQ(twelfth->name, eleventh->name);
  EXPECT_EQ(twelfth->count, 2);
  clock.advance(minutes(11));
  EXPECT_EQ(add(record("pod 12"))->record.message, "pod 12") << "ten quiet minutes end it";
}

TEST_F(EventAggregatorTest, OneObjectGets25AndThenOneInFiveMinutes) {
  int written = 0;
  for (int i = 0; i < 100; ++i) written += add(record("same")) ? 1 : 0;
  EXPECT_EQ(written, 25);
  EXPECT_TRUE(add(record("same", "api"))) << "another object has its own";
  clock.advance(minutes(5));
  EXPECT_TRUE(add(record("same")));
  EXPECT_FALSE(add(record("same")));
}

TEST_F(EventAggregatorTest, AForgottenEventIsCreatedAgainUnderAnotherName) {
  const auto first = add(record("claim missing"));
  aggregator.forget(record("claim missing"));
  clock.advance(seconds(1));
  const auto second = add(record("claim missing"));
  EXPECT_TRUE(second->create);
  EXPECT_NE(second->name, first->name);
}

TEST_F(EventAggregatorTest, AnEventThatTheServerHasForgottenIsCreatedAgain) {
  add(record("claim missing"));
  clock.advance(minutes(61));
  EXPECT_TRUE(add(record("claim missing"))->create);
}

TEST_F(EventAggregatorTest, RemembersABoundedNumberOfObjects) {
  EventAggregator small({.objects = 2});
  const auto add_to = [&](const std::string& name) {
    return small.add(record("m", name), clock.monotonic(), clock.wall())->create;
  };
  EXPECT_TRUE(add_to("a"));
  EXPECT_TRUE(add_to("b"));
  EXPECT_FALSE(add_to("a"));
  EXPECT_TRUE(add_to("c"));
  EXPECT_FALSE(add_to("a")) << "used more recently than b";
  EXPECT_TRUE(add_to("b"));
}

TEST_F(EventAggregatorTest, LongMessagesAreCutBetweenCharacters) {
  std::string message(1019, 'x');
  for (int i = 0; i < 10; ++i) message += "ä";
  const auto write = add(record(message));
  EXPECT_LE(write->record.message.size(), 1024U);
  EXPECT_EQ(write->record.message, std::string(1019, 'x') + "ä...");
}

TEST_F(EventAggregatorTest, NamesFitTheLimitOfTheApi) {
  EXPECT_LE(add(record("m", std::string(253, 'n')))->name.size(), 253U);
}

}  // namespace
}  // namespace compilecache::kube
