#include "kube/reflector.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "kube/cpprest_transport.hpp"
#include "kube/json.hpp"
#include "tests/support/fake_apiserver.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;
using compilecache::testing::fake_status;
using compilecache::testing::FakeApiServer;
using compilecache::testing::FakeConnection;
using compilecache::testing::FakeRequest;
using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kPodsPath = "/api/v1/pods";

Json pod(const std::string& name, int value) {
  return {{"metadata", {{"namespace", "ml"}, {"name", name}}}, {"spec", {{"value", value}}}};
}

Result<int> parse(const Json& object) {
  const Json& value = object["spec"]["value"];
  if (!value.is_number_integer()) return fail(ErrorCode::kInvalid, "no value");
  return value.get<int>();
}

class ReflectorTest : public ::testing::Test {
 protected:
  ReflectorTest() {
    Config config;
    config.source = "the test";
    config.server = server.url();
    client = std::make_unique<Client>(*make_transport(config));
    store.add_handlers({[this](const std::string& key, const auto& before, const auto& after) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!before) told[key] = *after;
      if (before && after) {
        EXPECT_EQ(told[key], *before) << "updates are told in order";
        told[key] = *after;
      }
      if (!after) told.erase(key);
    }});
  }
  ~ReflectorTest() override { reflector.reset(); }

  void start() {
    reflector = std::make_unique<Reflector<int>>(*client, options(), parse, store);
    reflector->start();
  }

  // Back-off runs a hundred times faster than said.
  static ReflectorOptions options() {
    return {.resource = resources::kPods, .wait = [](Duration time) {
              std::this_thread::sleep_for(time / 100);
              return false;
            }};
  }

  std::map<std::string, int> on_server() const {
    std::map<std::string, int> values;
    for (const auto& [key, object] : server.objects(kPodsPath)) {
      values[key] = object["spec"]["value"].get<int>();
    }
    return values;
  }
  std::map<std::string, int> in_store() const {
    std::map<std::string, int> values;
    for (const auto& [key, object] : store.snapshot()) values[key] = *object;
    return values;
  }
  static bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 3000; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }
  void expect_equal() {
    EXPECT_TRUE(eventually([&] { return store.has_synced() && in_store() == on_server(); }))
        << reflector->health().last_error;
    std::lock_guard<std::mutex> lock(mutex);
    EXPECT_EQ(told, on_server()) << "what the handlers were told";
  }

  FakeApiServer server;
  std::unique_ptr<Client> client;
  Store<int> store;
  std::mutex mutex;
  std::map<std::string, int> told;
  std::unique_ptr<Reflector<int>> reflector;
};

TEST_F(ReflectorTest, ListsAndFollows) {
  server.put(kPodsPath, pod("a", 1));
  start();
  expect_equal();
  server.put(kPodsPath, pod("b", 2));
  server.put(kPodsPath, pod("a", 3));
  expect_equal();
  server.erase(kPodsPath, "ml", "a");
  expect_equal();
  EXPECT_EQ(reflector->health().lists, 1U);
}

TEST_F(ReflectorTest, GoneInMidWatchListsAgainAndLosesNothing) {
  server.put(kPodsPath, pod("a", 1));
  start();
  expect_equal();
  server.compact();
  server.erase(kPodsPath, "ml", "a");
  server.put(kPodsPath, pod("b", 2));
  expect_equal();
  EXPECT_GE(reflector->health().lists, 2U);
}

TEST_F(ReflectorTest, GoneOnPageTwoListsAllAtOnce) {
  for (int i = 0; i < 1200; ++i) server.put(kPodsPath, pod("p" + std::to_string(i), i));
  server.script([&](const FakeRequest& request, FakeConnection&) {
    if (!request.parameter("continue").empty()) server.compact();
    return false;
  });
  start();
  expect_equal();
  EXPECT_EQ(store.size(), 1200U);
}

TEST_F(ReflectorTest, ThrottledListIsTriedAfterTheTimeSaid) {
  server.put(kPodsPath, pod("a", 1));
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.reply(429, fake_status(429, "TooManyRequests", "slow"), {{"Retry-After", "0"}});
    return true;
  });
  start();
  expect_equal();
}

TEST_F(ReflectorTest, HalfAChunkThenCutLosesNothing) {
  server.put(kPodsPath, pod("a", 1));
  server.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (!request.is_watch()) return false;
    const Json event = {{"type", "MODIFIED"}, {"object", server.put(kPodsPath, pod("a", 2))}};
    connection.begin_stream();
    connection.half_chunk_then_cut(event.dump().substr(0, 30));
    return true;
  });
  start();
  expect_equal();
}

TEST_F(ReflectorTest, ABookmarkMovesTheVersionOfTheNextWatch) {
  server.put(kPodsPath, pod("a", 1));
  start();
  expect_equal();
  server.bookmark(kPodsPath);
  const std::string version = std::to_string(server.version());
  server.put("/api/v1/nodes", {{"metadata", {{"name", "n"}}}});
  ASSERT_TRUE(eventually([&] { return reflector->health().resource_version == version; }));
  server.end_watches(FakeApiServer::End::kClosed);
  EXPECT_TRUE(eventually([&] {
    const FakeRequest last = server.requests().back();
    return last.is_watch() && last.parameter("resourceVersion") == version;
  }));
}

TEST_F(ReflectorTest, ObjectsThatCannotBeReadAreLeftOutAndTheOldStateStays) {
  server.put(kPodsPath, pod("a", 1));
  server.put(kPodsPath, {{"metadata", {{"namespace", "ml"}, {"name", "broken"}}}, {"spec", 1}});
  start();
  ASSERT_TRUE(eventually([&] { return store.has_synced(); }));
  Json bad = pod("a", 2);
  bad["spec"]["value"] = "two";
  server.put(kPodsPath, bad);
  server.put(kPodsPath, pod("c", 3));
  EXPECT_TRUE(eventually([&] { return store.get("ml/c") != nullptr; }));
  EXPECT_EQ(*store.get("ml/a"), 1);
  EXPECT_EQ(store.get("ml/broken"), nullptr);
}

TEST_F(ReflectorTest, LinesThatAreNoEventsAreSkipped) {
  server.put(kPodsPath, pod("a", 1));
  server.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (!request.is_watch()) return false;
    connection.begin_stream();
    connection.chunk("not json\n{}\n{\"type\":\"NEW\",\"object\":{}}\n{\"type\":\"ADDED\"}\n");
    connection.chunk("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ERROR\",\"object\":7}\n");
    connection.end_stream();
    return true;
  });
  start();
  expect_equal();
  server.put(kPodsPath, pod("b", 2));
  expect_equal();
}

TEST_F(ReflectorTest, AServerThatIsNotThereIsFoundWhenItComes) {
  const std::string nobody = "http://127.0.0.1:1";
  Config config;
  config.source = "the test";
  config.server = nobody;
  Reflector<int> lost(Client(*make_transport(config)), options(), parse, store);
  lost.start();
  EXPECT_TRUE(eventually([&] { return !lost.health().last_error.empty(); }));
  EXPECT_FALSE(store.has_synced());
  lost.stop();
}

TEST_F(ReflectorTest, StopsWhileWatchingAndWhileAListHangs) {
  start();
  expect_equal();
  reflector->stop();
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.wait_closed(seconds(60));
    return true;
  });
  Store<int> other;
  Reflector<int> hanging(*client, options(), parse, other);
  hanging.start();
  EXPECT_TRUE(eventually([&] { return server.scripts_left() == 0; }));
  hanging.stop();
}

// Changes and faults in random order; whatever they were, the store ends equal to the server.
TEST_F(ReflectorTest, WhateverHappensTheStoreEndsEqualToTheServer) {
  const uint64_t seed = system_random()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  const Random random = seeded_random(seed);
  start();
  for (int i = 0; i < 400; ++i) {
    const std::string name = "p" + std::to_string(random() % 12);
    switch (random() % 40) {
      case 0:
        server.compact();
        break;
      case 1:
        server.end_watches(FakeApiServer::End::kClosed);
        break;
      case 2:
        server.end_watches(FakeApiServer::End::kCut);
        break;
      case 3:
        server.end_watches(FakeApiServer::End::kGone);
        break;
      case 4:
        server.close_all();
        break;
      case 5:
        server.bookmark(kPodsPath);
        break;
      case 6:
        server.script([](const FakeRequest&, FakeConnection& connection) {
          connection.reply(500, fake_status(500, "InternalError", "oops"));
          return true;
        });
        break;
      default:
        if (random() % 3 == 0) {
          server.erase(kPodsPath, "ml", name);
        } else {
          server.put(kPodsPath, pod(name, i));
        }
    }
    if (random() % 8 == 0) std::this_thread::sleep_for(milliseconds(random() % 20));
  }
  expect_equal();
}

}  // namespace
}  // namespace compilecache::kube
