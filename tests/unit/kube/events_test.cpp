#include "kube/events.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "kube/cpprest_transport.hpp"
#include "tests/support/fake_apiserver.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;
using compilecache::testing::fake_status;
using compilecache::testing::FakeApiServer;
using compilecache::testing::FakeConnection;
using compilecache::testing::FakeRequest;

class EventsTest : public ::testing::Test {
 protected:
  EventsTest() {
    Config config;
    config.source = "the test";
    config.server = server.url();
    client = std::make_unique<Client>(*make_transport(config));
    recorder = std::make_unique<EventRecorder>(*client, "compilecache-operator", "replica-1");
  }
  std::vector<Json> written() const {
    std::vector<Json> events;
    for (const auto& [key, event] : server.objects("/api/v1/events")) events.push_back(event);
    return events;
  }

  const ObjectReference web{"apps/v1", "Deployment", "ml", "web", "uid-1"};
  FakeApiServer server;
  std::unique_ptr<Client> client;
  std::unique_ptr<EventRecorder> recorder;
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
  while (written().empty()) std::this_thread::yield();
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
