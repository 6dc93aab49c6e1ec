#include "kube/reflector.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "tests/support/free_port.hpp"
#include "tests/unit/kube/server_test.hpp"

namespace compilecache::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kWatchedPath = "/api/v1/pods";

Json pod(const std::string& name, int value) {
  return {{"metadata", {{"namespace", "ml"}, {"name", name}}}, {"spec", {{"value", value}}}};
}

// A watch of what happens from now on.
bool is_following(const FakeRequest& request) {
  return request.is_watch() && request.parameter("sendInitialEvents").empty();
}

Result<int> parse(const Json& object) {
  const Json& value = object["spec"]["value"];
  if (!value.is_number_integer()) return fail(ErrorCode::kInvalid, "no value");
  return value.get<int>();
}

// Against a server that begins watches with the present objects, and one that does not.
class ReflectorTest : public ServerTest, public ::testing::WithParamInterface<bool> {
 protected:
  ReflectorTest() {
    server.allow_initial_events(GetParam());
    store.add_handlers({[this](const std::string& key, const auto& before, const auto& after) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!before) told[key] = *after;
      if (before && after) {
        EXPECT_EQ(told[key], *before) << "updates come in order";
        told[key] = *after;
      }
      if (!after) told.erase(key);
    }});
  }
  ~ReflectorTest() override { reflector.reset(); }

  void start(const ReflectorOptions& with = options()) {
    reflector = std::make_unique<Reflector<int>>(client, with, parse, store);
    reflector->start();
  }

  // Back-off runs a hundred times faster than said.
  static ReflectorOptions options() {
    return {.resource = resources::kPods, .fields = {"/spec/value"}, .wait = [](Duration time) {
              std::this_thread::sleep_for(time / 100);
              return false;
            }};
  }

  std::map<std::string, int> on_server() const {
    std::map<std::string, int> values;
    for (const auto& [key, object] : server.objects(kWatchedPath)) {
      values[key] = object["spec"]["value"].get<int>();
    }
    return values;
  }
  std::map<std::string, int> in_store() const {
    std::map<std::string, int> values;
    for (const auto& [key, object] : store.snapshot()) values[key] = *object;
    return values;
  }
  std::map<std::string, int> what_was_told() {
    std::lock_guard<std::mutex> lock(mutex);
    return told;
  }
  void expect_equal() {
    EXPECT_TRUE(soon([&] { return store.has_synced() && in_store() == on_server(); }))
        << reflector->health().last_error;
    // The store has a change a moment before its handlers.
    EXPECT_TRUE(soon([&] { return what_was_told() == on_server(); }));
    EXPECT_EQ(what_was_told(), on_server()) << "the state that the handlers saw";
  }

  Store<int> store;
  std::mutex mutex;
  std::map<std::string, int> told;
  std::unique_ptr<Reflector<int>> reflector;
};

INSTANTIATE_TEST_SUITE_P(Servers, ReflectorTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "WatchList" : "Lists"; });

TEST_P(ReflectorTest, ListsAndFollows) {
  server.put(kWatchedPath, pod("a", 1));
  start();
  expect_equal();
  server.put(kWatchedPath, pod("b", 2));
  server.put(kWatchedPath, pod("a", 3));
  expect_equal();
  server.erase(kWatchedPath, "ml", "a");
  expect_equal();
  EXPECT_TRUE(soon([&] { return reflector->health().syncs == 1; }));
  EXPECT_EQ(reflector->health().lists, GetParam() ? 0U : 1U);
}

TEST_P(ReflectorTest, ItSaysWhenItsWatchWasHeardLast) {
  server.put(kWatchedPath, pod("a", 1));
  reflector = std::make_unique<Reflector<int>>(client, options(), parse, store);
  EXPECT_FALSE(reflector->heard());
  reflector->start();
  expect_equal();
  ASSERT_TRUE(soon([&] { return reflector->heard().has_value(); }));
  const Monotonic first = *reflector->heard();
  server.put(kWatchedPath, pod("b", 2));
  EXPECT_TRUE(soon([&] { return *reflector->heard() > first; }));
}

TEST_P(ReflectorTest, GoneInMidWatchListsAgainAndLosesNothing) {
  server.put(kWatchedPath, pod("a", 1));
  start();
  expect_equal();
  server.compact();
  server.erase(kWatchedPath, "ml", "a");
  server.put(kWatchedPath, pod("b", 2));
  expect_equal();
  EXPECT_TRUE(soon([&] { return reflector->health().syncs >= 2; }));
}

TEST_P(ReflectorTest, GoneOnPageTwoListsAllAtOnce) {
  server.allow_initial_events(false);
  for (int i = 0; i < 1200; ++i) server.put(kWatchedPath, pod("p" + std::to_string(i), i));
  server.script([&](const FakeRequest& request, FakeConnection&) {
    if (!request.parameter("continue").empty()) server.compact();
    return false;
  });
  start();
  expect_equal();
  EXPECT_EQ(store.size(), 1200U);
}

TEST_P(ReflectorTest, AThrottledListIsTriedAfterTheTimeSaid) {
  server.allow_initial_events(false);
  server.put(kWatchedPath, pod("a", 1));
  server.script([](const FakeRequest& request, FakeConnection& connection) {
    if (!request.is_list()) return false;
    connection.reply(429, fake_status(429, "TooManyRequests", "slow"), {{"Retry-After", "7"}});
    return true;
  });
  std::vector<Duration> waits;  // of the reflector's thread, before it has the objects
  client = Client(transport, {.wait = [&](Duration time) {
                    waits.push_back(time);
                    return false;
                  }});
  start();
  expect_equal();
  reflector->stop();
  EXPECT_EQ(server.scripts_left(), 0U);
  EXPECT_EQ(waits, std::vector<Duration>{seconds(7)});
}

TEST_P(ReflectorTest, HalfAChunkThenCutLosesNothing) {
  server.put(kWatchedPath, pod("a", 1));
  server.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (!is_following(request)) return false;
    const Json event = {{"type", "MODIFIED"}, {"object", server.put(kWatchedPath, pod("a", 2))}};
    connection.begin_stream();
    connection.half_chunk_then_cut(event.dump().substr(0, 30));
    return true;
  });
  start();
  ASSERT_TRUE(soon([&] { return store.has_synced(); }));
  server.end_watches(FakeApiServer::End::kClosed);
  // Only then there is something to lose.
  ASSERT_TRUE(soon([&] { return server.scripts_left() == 0; }));
  expect_equal();
  EXPECT_EQ(*store.get("ml/a"), 2);
}

TEST_P(ReflectorTest, ABookmarkMovesTheVersionOfTheNextWatch) {
  server.put(kWatchedPath, pod("a", 1));
  start();
  expect_equal();
  server.bookmark(kWatchedPath);
  const std::string version = std::to_string(server.version());
  server.put("/api/v1/nodes", {{"metadata", {{"name", "n"}}}});
  ASSERT_TRUE(soon([&] { return reflector->health().resource_version == version; }));
  server.end_watches(FakeApiServer::End::kClosed);
  EXPECT_TRUE(soon([&] {
    const FakeRequest last = server.requests().back();
    return last.is_watch() && last.parameter("resourceVersion") == version;
  }));
}

TEST_P(ReflectorTest, ObjectsThatCannotBeReadAreLeftOutAndTheOldStateStays) {
  server.put(kWatchedPath, pod("a", 1));
  server.put(kWatchedPath, {{"metadata", {{"namespace", "ml"}, {"name", "broken"}}}, {"spec", 1}});
  start();
  ASSERT_TRUE(soon([&] { return store.has_synced(); }));
  Json bad = pod("a", 2);
  bad["spec"]["value"] = "two";
  server.put(kWatchedPath, bad);
  server.put(kWatchedPath, pod("c", 3));
  EXPECT_TRUE(soon([&] { return store.get("ml/c") != nullptr; }));
  EXPECT_EQ(*store.get("ml/a"), 1);
  EXPECT_EQ(store.get("ml/broken"), nullptr);
}

TEST_P(ReflectorTest, LinesThatAreNoEventsAreSkipped) {
  server.put(kWatchedPath, pod("a", 1));
  server.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (!is_following(request)) return false;
    connection.begin_stream();
    connection.chunk("not json\n{}\n{\"type\":\"NEW\",\"object\":{}}\n{\"type\":\"ADDED\"}\n");
    connection.chunk("{\"type\":\"ADDED\",\"object\":{}}\n{\"type\":\"ERROR\",\"object\":7}\n");
    connection.end_stream();
    return true;
  });
  start();
  expect_equal();
  server.put(kWatchedPath, pod("b", 2));
  server.end_watches(FakeApiServer::End::kClosed);
  ASSERT_TRUE(soon([&] { return server.scripts_left() == 0; })) << "they were not sent";
  expect_equal();
}

TEST_P(ReflectorTest, AServerThatIsNotThereIsFoundWhenItComes) {
  const uint16_t port = compilecache::testing::free_port();
  client = Client(transport_to("http://127.0.0.1:" + std::to_string(port)));
  start();
  ASSERT_TRUE(soon([&] { return !reflector->health().last_error.empty(); }));
  EXPECT_FALSE(store.has_synced());
  FakeApiServer late(port);
  late.allow_initial_events(GetParam());
  late.put(kWatchedPath, pod("a", 1));
  EXPECT_TRUE(soon([&] { return store.has_synced() && store.get("ml/a") != nullptr; }))
      << reflector->health().last_error;
  reflector->stop();
}

TEST_P(ReflectorTest, StopsWhileWatchingAndWhileAListHangs) {
  start();
  expect_equal();
  reflector->stop();
  hang_once();
  Store<int> other;
  Reflector<int> hanging(client, options(), parse, other);
  hanging.start();
  EXPECT_TRUE(soon([&] { return server.scripts_left() == 0; }));
  hanging.stop();
}

// --- connections that die without a word -----------------------------------------------------

// Silence counts as death after 300 ms.
ReflectorOptions impatient(ReflectorOptions from) {
  from.idle_timeout = milliseconds(300);
  from.start_timeout = milliseconds(300);
  return from;
}

struct Silence {
  const char* name;
  std::function<void(FakeConnection&)> before;
};
const std::vector<Silence> kSilences{
    {"of a proxy that withholds the headers", [](FakeConnection&) {}},
    {"of a half-open connection", [](FakeConnection& c) { c.begin_stream(); }},
    {"in the middle of a line",
     [](FakeConnection& c) {
       c.begin_stream();
       c.chunk("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"gho");
     }},
    {"in the middle of a chunk", [](FakeConnection& c) {
       c.begin_stream();
       c.half_chunk("{\"type\":\"ADD");
     }}};

TEST_P(ReflectorTest, ASilentWatchIsNoticedAndHealed) {
  for (const Silence& silence : kSilences) {
    SCOPED_TRACE(silence.name);
    server.put(kWatchedPath, pod("a", 1));
    server.script([&](const FakeRequest& request, FakeConnection& connection) {
      if (!is_following(request)) return false;
      silence.before(connection);
      server.put(kWatchedPath, pod("a", 2));
      connection.wait_closed(std::chrono::minutes(1));
      return true;
    });
    start(impatient(options()));
    ASSERT_TRUE(soon([&] { return reflector->health().synced; }));
    server.end_watches(FakeApiServer::End::kClosed);
    EXPECT_TRUE(soon([&] { return server.scripts_left() == 0; }));
    expect_equal();
  }
}

// The script ends the first request: the one that gets the present objects.
TEST_P(ReflectorTest, SilenceWhileThePresentObjectsComeIsNoticedAndHealed) {
  client = client.with_timeout(milliseconds(300), 10);
  for (const Silence& silence : kSilences) {
    SCOPED_TRACE(silence.name);
    server.put(kWatchedPath, pod("a", 1));
    server.script([&](const FakeRequest&, FakeConnection& connection) {
      silence.before(connection);
      connection.wait_closed(std::chrono::minutes(1));
      return true;
    });
    start(impatient(options()));
    EXPECT_TRUE(soon([&] { return server.scripts_left() == 0; }));
    expect_equal();
  }
}

TEST_P(ReflectorTest, WhatCameBeforeACutIsNotKept) {
  server.put(kWatchedPath, pod("a", 1));
  server.script([](const FakeRequest& request, FakeConnection& connection) {
    const Json ghost = pod("ghost", 7);
    connection.begin_stream();
    if (request.is_watch()) {
      connection.chunk(Json{{"type", "ADDED"}, {"object", ghost}}.dump() + "\n");
      connection.cut();
    } else {
      connection.half_chunk_then_cut("{\"items\":[" + ghost.dump() + ",");
    }
    return true;
  });
  start();
  expect_equal();
  EXPECT_EQ(server.scripts_left(), 0U);
}

TEST_P(ReflectorTest, AnswersThatAreErrorsAreOutlived) {
  server.put(kWatchedPath, pod("a", 1));
  for (const int code : {429, 500, 401, 410, 503, 504}) {
    for (const bool following : {true, false}) {
      server.script([=](const FakeRequest& request, FakeConnection& connection) {
        if (is_following(request) != following) return false;
        connection.reply(code, fake_status(code, "", "for the test"));
        return true;
      });
    }
  }
  start();
  expect_equal();
  for (int i = 0; server.scripts_left() > 0 && i < 100; ++i) {
    server.put(kWatchedPath, pod("a", i));
    server.compact();  // missed events force a new list
    server.end_watches(FakeApiServer::End::kCut);
    expect_equal();
  }
  EXPECT_EQ(server.scripts_left(), 0U);
}

TEST_P(ReflectorTest, EventsOfAnotherKindAreSkipped) {
  server.put(kWatchedPath, pod("a", 1));
  server.script([](const FakeRequest& request, FakeConnection& connection) {
    if (!is_following(request)) return false;
    Json other = pod("b", 7);
    other["kind"] = "Node";
    connection.begin_stream();
    connection.chunk(Json{{"type", "ADDED"}, {"object", other}}.dump() + "\n");
    connection.end_stream();
    return true;
  });
  start();
  ASSERT_TRUE(soon([&] { return store.has_synced(); }));
  server.end_watches(FakeApiServer::End::kClosed);
  EXPECT_TRUE(soon([&] { return server.scripts_left() == 0; }));
  server.put(kWatchedPath, pod("c", 1));
  expect_equal();
}

// Changes and faults in random order; whatever they were, the store ends equal to the server.
TEST_P(ReflectorTest, WhateverHappensTheStoreEndsEqualToTheServer) {
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
        server.bookmark(kWatchedPath);
        break;
      case 6:
        reply_once(500, fake_status(500, "InternalError", "oops"));
        break;
      default:
        if (random() % 3 == 0) {
          server.erase(kWatchedPath, "ml", name);
        } else {
          server.put(kWatchedPath, pod(name, i));
        }
    }
    if (random() % 8 == 0) std::this_thread::sleep_for(milliseconds(random() % 20));
  }
  expect_equal();
}

}  // namespace
}  // namespace compilecache::kube
