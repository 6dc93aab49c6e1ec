#include "kube/events.hpp"

#include <gtest/gtest.h>

#include "tests/support/soon.hpp"
#include "tests/unit/kube/server_test.hpp"

namespace compilecache::kube {
namespace {

class EventsTest : public ServerTest {
 protected:
  std::vector<Json> written() const {
    std::vector<Json> events;
    for (const auto& [key, event] : server.objects("/api/v1/events")) events.push_back(event);
    return events;
  }

  const ObjectReference web{"apps/v1", "Deployment", "ml", "web", "uid-1"};
  std::unique_ptr<EventRecorder> recorder =
      std::make_unique<EventRecorder>(client, "compilecache-operator", "replica-1");
};

TEST_F(EventsTest, AnEventSaysWhatKubectlShows) {
  recorder->warning(web, "InjectionSkipped", "claim x does not exist");
  recorder->stop();
  ASSERT_EQ(written().size(), 1U);
  const Json event = written().front();
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["reason"], "InjectionSkipped");
  EXPECT_EQ(event["message"], "claim x does not exist");
  EXPECT_EQ(event["involvedObject"]["kind"], "Deployment");
  EXPECT_EQ(event["involvedObject"]["uid"], "uid-1");
  EXPECT_EQ(event["metadata"]["namespace"], "ml");
  EXPECT_EQ(event["source"]["component"], "compilecache-operator");
  EXPECT_EQ(event["count"], 1);
}

TEST_F(EventsTest, ARepeatRaisesTheCount) {
  for (int i = 0; i < 3; ++i) recorder->normal(web, "Saved", "12 files");
  recorder->stop();
  ASSERT_EQ(written().size(), 1U);
  EXPECT_EQ(written().front()["count"], 3);
}

TEST_F(EventsTest, AnEventDeletedInBetweenIsWrittenAnew) {
  recorder->normal(web, "Saved", "12 files");
  ASSERT_TRUE(compilecache::testing::soon([&] { return !written().empty(); }));
  server.erase("/api/v1/events", "ml", written().front()["metadata"]["name"]);
  recorder->normal(web, "Saved", "12 files");
  recorder->stop();
  ASSERT_EQ(written().size(), 1U);
  EXPECT_EQ(written().front()["count"], 2);
}

TEST_F(EventsTest, ClusterWideObjectsHaveTheirEventsInDefault) {
  recorder->normal({"v1", "Node", "", "n1", "u"}, "Seen", "m");
  recorder->stop();
  ASSERT_EQ(written().size(), 1U);
  EXPECT_EQ(written().front()["metadata"]["namespace"], "default");
}

TEST_F(EventsTest, ARefusedEventIsDroppedAndTheNextIsWritten) {
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.reply(403, fake_status(403, "Forbidden", "namespace is going"));
    return true;
  });
  recorder->normal(web, "One", "m");
  recorder->normal(web, "Two", "m");
  recorder->stop();
  ASSERT_EQ(written().size(), 1U);
  EXPECT_EQ(written().front()["reason"], "Two");
  EXPECT_EQ(recorder->dropped(), 1U);
}

TEST_F(EventsTest, AnEventIsTriedTwelveTimesTenSecondsApart) {
  std::vector<Duration> waits;
  ClientOptions options;
  options.wait = [&](Duration time) {
    waits.push_back(time);
    return false;
  };
  for (int i = 0; i < 12; ++i) reply_once(500, fake_status(500, "InternalError", "etcd is away"));
  EventRecorder patient(Client(transport, options), "compilecache-operator");
  patient.normal(web, "Lost", "m");
  patient.normal(web, "Written", "m");
  EXPECT_TRUE(soon([&] { return !written().empty(); }));
  patient.stop();
  EXPECT_EQ(waits, std::vector<Duration>(11, std::chrono::seconds(10)));
  EXPECT_EQ(patient.dropped(), 1U);
  ASSERT_EQ(written().size(), 1U);
  EXPECT_EQ(written().front()["reason"], "Written");
}

TEST_F(EventsTest, AFullQueueNeverBlocksTheCaller) {
  Cancellation reached;
  server.script([reached](const FakeRequest&, FakeConnection& connection) {
    reached.cancel();
    connection.wait_closed(std::chrono::minutes(1));
    return true;
  });
  recorder->normal(web, "First", "hangs");
  ASSERT_TRUE(reached.wait_for(std::chrono::seconds(30)));
  for (int i = 0; i < 1100; ++i) recorder->normal(web, "Saved", std::to_string(i));
  EXPECT_EQ(recorder->dropped(), 100U);
  recorder->stop();
  recorder->normal(web, "Late", "after the end");
  EXPECT_EQ(recorder->dropped(), 1102U);
}

}  // namespace
}  // namespace compilecache::kube
