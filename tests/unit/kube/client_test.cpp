#include "kube/client.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/kube/server_test.hpp"

namespace compilecache::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kPodsPath = "/api/v1/pods";

Json pod(const std::string& ns, const std::string& name) {
  return {{"metadata", {{"namespace", ns}, {"name", name}}}};
}

class ClientTest : public ServerTest {
 protected:
  ClientTest() {
    ClientOptions options;
    options.timeout = seconds(10);
    options.wait = [this](Duration time) {
      waits.push_back(time);
      return false;
    };
    client = Client(transport, options);
  }

  std::vector<Duration> waits;
};

TEST_F(ClientTest, CreatesReadsUpdatesAndDeletes) {
  auto created = client.create(resources::kPods, pod("ml", "web"));
  ASSERT_TRUE(created) << created.error().message;
  auto got = client.get(resources::kPods, "ml", "web");
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, *created);
  (*got)["status"]["phase"] = "Running";
  ASSERT_TRUE(client.update_status(resources::kPods, *got));
  auto patched = client.patch(resources::kPods, "ml", "web", PatchType::kMerge,
                              {{"metadata", {{"labels", {{"a", "b"}}}}}});
  ASSERT_TRUE(patched);
  EXPECT_EQ((*patched)["status"]["phase"], "Running");
  EXPECT_EQ((*patched)["metadata"]["labels"]["a"], "b");
  ASSERT_TRUE(client.remove(resources::kPods, "ml", "web"));
  EXPECT_EQ(client.get(resources::kPods, "ml", "web").error().code, ErrorCode::kNotFound);
}

TEST_F(ClientTest, AStaleUpdateIsAConflictAndTheObjectStaysAsItWas) {
  client.create(resources::kPods, pod("ml", "web"));
  Json stale = *client.get(resources::kPods, "ml", "web");
  client.patch(resources::kPods, "ml", "web", PatchType::kMerge, {{"spec", {{"x", 1}}}});
  stale["spec"]["x"] = 2;
  EXPECT_EQ(client.update(resources::kPods, stale).error().code, ErrorCode::kConflict);
  EXPECT_EQ((*client.get(resources::kPods, "ml", "web"))["spec"]["x"], 1);
}

TEST_F(ClientTest, AStaleStatusIsAConflictToo) {
  const Json stale = *client.create(resources::kPods, pod("ml", "web"));
  Json fresh = stale;
  fresh["status"]["phase"] = "Running";
  ASSERT_TRUE(client.update_status(resources::kPods, fresh));
  fresh = stale;
  fresh["status"]["phase"] = "Failed";
  EXPECT_EQ(client.update_status(resources::kPods, fresh).error().code, ErrorCode::kConflict);
  EXPECT_EQ((*client.get(resources::kPods, "ml", "web"))["status"]["phase"], "Running");
}

TEST_F(ClientTest, CreatingWhatIsThereIsAlreadyExists) {
  client.create(resources::kPods, pod("ml", "web"));
  EXPECT_EQ(client.create(resources::kPods, pod("ml", "web")).error().code,
            ErrorCode::kAlreadyExists);
}

TEST_F(ClientTest, AnotherUidIsNotDeleted) {
  client.create(resources::kPods, pod("ml", "web"));
  EXPECT_EQ(client.remove(resources::kPods, "ml", "web", {.uid = "other"}).error().code,
            ErrorCode::kConflict);
  const Json left = *client.get(resources::kPods, "ml", "web");
  EXPECT_TRUE(client.remove(resources::kPods, "ml", "web", {.uid = left["metadata"]["uid"]}));
}

TEST_F(ClientTest, AnotherVersionIsNotDeleted) {
  const Json seen = *client.create(resources::kPods, pod("ml", "web"));
  Json changed = seen;
  changed["status"]["phase"] = "Running";
  const auto now = client.update_status(resources::kPods, changed);
  ASSERT_TRUE(now);
  const auto removed = [&](const Json& object) {
    return client.remove(resources::kPods, "ml", "web",
                         {.resource_version = object["metadata"]["resourceVersion"]});
  };
  EXPECT_EQ(removed(seen).error().code, ErrorCode::kConflict);
  EXPECT_TRUE(removed(*now));
}

TEST_F(ClientTest, RequestsCarryWhatTheApiWants) {
  client.create(resources::kPods, pod("ml", "web"));
  Json object = pod("ml", "web");
  client.patch(resources::kPods, "ml", "web", PatchType::kApply, object,
               {.field_manager = "tester", .force = true});
  const FakeRequest patch = server.requests().back();
  EXPECT_EQ(patch.headers.at("content-type"), "application/apply-patch+yaml");
  EXPECT_EQ(patch.parameter("fieldManager"), "tester");
  EXPECT_EQ(patch.parameter("force"), "true");
  EXPECT_EQ(patch.headers.at("user-agent").rfind("compilecache/", 0), 0U);

  client.list(resources::kNodes, {.label_selector = "a in (b,c),!d", .metadata_only = true});
  const FakeRequest list = server.requests().back();
  EXPECT_EQ(list.parameter("labelSelector"), "a in (b,c),!d");
  EXPECT_EQ(list.headers.at("accept"),
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");

  client.update_status(resources::kPods, *client.get(resources::kPods, "ml", "web"));
  EXPECT_EQ(server.requests().back().path, "/api/v1/namespaces/ml/pods/web/status")
      << "an update of the object leaves its status as it is";

  client.remove(resources::kPods, "ml", "web", {.propagation = "Background"});
  EXPECT_EQ(Json::parse(server.requests().back().body)["propagationPolicy"], "Background");
}

TEST_F(ClientTest, ManagedFieldsAreLeftOut) {
  Json object = pod("ml", "web");
  object["metadata"]["managedFields"] = Json::array({{{"manager", "kubectl"}}});
  server.put(kPodsPath, object);
  const Json items = (*client.list(resources::kPods, {}))["items"];
  ASSERT_EQ(items.size(), 1U);
  EXPECT_FALSE(items[0]["metadata"].contains("managedFields"));
  EXPECT_EQ(items[0]["metadata"]["name"], "web");
}

TEST_F(ClientTest, ListsAllPages) {
  for (int i = 0; i < 7; ++i) server.put(kPodsPath, pod("ml", "p" + std::to_string(i)));
  auto all = client.list_all(resources::kPods, {.limit = 3});
  ASSERT_TRUE(all);
  EXPECT_EQ((*all)["items"].size(), 7U);
  EXPECT_EQ(server.requests().size(), 3U);
}

TEST_F(ClientTest, AnExpiredPageIsListedAnewWithoutPages) {
  for (int i = 0; i < 7; ++i) server.put(kPodsPath, pod("ml", "p" + std::to_string(i)));
  server.script([&](const FakeRequest& request, FakeConnection&) {
    if (!request.parameter("continue").empty()) server.compact();
    return false;
  });
  auto all = client.list_all(resources::kPods, {.limit = 3});
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ((*all)["items"].size(), 7U);
  EXPECT_EQ(server.requests().back().parameter("limit"), "");
}

struct CodeCase {
  int status;
  const char* reason;
  ErrorCode code;
};
class ErrorMapping : public ClientTest, public ::testing::WithParamInterface<CodeCase> {};

TEST_P(ErrorMapping, KeepsTheServersMessage) {
  reply_once(GetParam().status, fake_status(GetParam().status, GetParam().reason, "because of x"));
  auto got = client.get(resources::kPods, "ml", "web");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, GetParam().code) << to_string(got.error().code);
  EXPECT_NE(got.error().message.find("getting pods ml/web: because of x"), std::string::npos)
      << got.error().message;
}
INSTANTIATE_TEST_SUITE_P(
    Codes, ErrorMapping,
    ::testing::Values(CodeCase{400, "BadRequest", ErrorCode::kInvalid},
                      CodeCase{401, "Unauthorized", ErrorCode::kUnauthorized},
                      CodeCase{403, "Forbidden", ErrorCode::kForbidden},
                      CodeCase{404, "NotFound", ErrorCode::kNotFound},
                      CodeCase{409, "Conflict", ErrorCode::kConflict},
                      CodeCase{409, "AlreadyExists", ErrorCode::kAlreadyExists},
                      CodeCase{410, "Expired", ErrorCode::kExpired},
                      CodeCase{413, "TooLarge", ErrorCode::kTooLarge},
                      CodeCase{422, "Invalid", ErrorCode::kInvalid},
                      CodeCase{429, "TooManyRequests", ErrorCode::kThrottled},
                      CodeCase{500, "InternalError", ErrorCode::kUnavailable},
                      CodeCase{503, "ServiceUnavailable", ErrorCode::kUnavailable},
                      CodeCase{504, "Timeout", ErrorCode::kTimeout}));

TEST_F(ClientTest, OnlyALackOfRightsIsToBeGranted) {
  const auto message = [&](const char* said) {
    reply_once(403, fake_status(403, "Forbidden", said));
    return client.create(resources::kPods, pod("ml", "web")).error().message;
  };
  EXPECT_NE(message("pods is forbidden: User \"ci\" cannot create resource \"pods\"")
                .find("grant it in the program's role"),
            std::string::npos);
  const std::string quota = message(
      "pods \"web\" is forbidden: exceeded quota: compute, requested: limits.cpu=2, used: "
      "limits.cpu=9, limited: limits.cpu=10");
  EXPECT_EQ(quota.find("role"), std::string::npos) << quota;
  EXPECT_NE(quota.find("raise that ResourceQuota"), std::string::npos) << quota;
  EXPECT_EQ(message("pods \"web\" is forbidden: violates PodSecurity").find("role"),
            std::string::npos);
}

TEST_F(ClientTest, RetryAfterIsObeyed) {
  client.create(resources::kPods, pod("ml", "web"));
  reply_once(429, fake_status(429, "TooManyRequests", "slow"), {{"Retry-After", "3"}});
  reply_once(503, fake_status(503, "ServiceUnavailable", "later"), {{"Retry-After", "1"}});
  EXPECT_TRUE(client.get(resources::kPods, "ml", "web"));
  EXPECT_EQ(waits, (std::vector<Duration>{seconds(3), seconds(1)}));
}

TEST_F(ClientTest, AWriteIsTriedAgainOnlyWhenTheServerSaysSo) {
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.cut();
    return true;
  });
  const auto cut = client.create(resources::kPods, pod("ml", "web"));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::kIo);
  EXPECT_TRUE(server.objects(kPodsPath).empty());
  reply_once(429, fake_status(429, "TooManyRequests", "slow"), {{"Retry-After", "2"}});
  EXPECT_TRUE(client.create(resources::kPods, pod("ml", "web")));
  EXPECT_EQ(waits, std::vector<Duration>{seconds(2)});
}

TEST_F(ClientTest, GivesUpAfterTenMoreTries) {
  for (int i = 0; i < 20; ++i) {
    reply_once(429, fake_status(429, "TooManyRequests", "slow"), {{"Retry-After", "1"}});
  }
  EXPECT_EQ(client.get(resources::kPods, "ml", "web").error().code, ErrorCode::kThrottled);
  EXPECT_EQ(server.requests().size(), 11U);
}

TEST_F(ClientTest, AReadIsTriedAgainWhenItsConnectionBreaks) {
  server.put(kPodsPath, pod("ml", "web"));
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    connection.half_chunk_then_cut(R"({"metadata":)");
    return true;
  });
  auto got = client.get(resources::kPods, "ml", "web");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ((*got)["metadata"]["name"], "web");
}

TEST_F(ClientTest, ASlowAnswerIsATimeout) {
  hang_once();
  const Client hasty = client.with_timeout(milliseconds(100), 0);
  EXPECT_EQ(hasty.get(resources::kPods, "ml", "web").error().code, ErrorCode::kTimeout);
}

TEST_F(ClientTest, CancellingEndsACall) {
  Cancellation cancel;
  server.script([cancel](const FakeRequest&, FakeConnection& connection) {
    cancel.cancel();
    connection.wait_closed(seconds(20));
    return true;
  });
  EXPECT_EQ(client.with_cancel(cancel).get(resources::kPods, "ml", "web").error().code,
            ErrorCode::kCancelled);
}

TEST_F(ClientTest, NoServerIsUnavailable) {
  const Client nobody(transport_to("http://127.0.0.1:1"));
  const auto got = nobody.get(resources::kPods, "ml", "web");
  EXPECT_EQ(got.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(got.error().message.find("127.0.0.1:1"), std::string::npos) << got.error().message;
}

TEST_F(ClientTest, AnAnswerThatIsNoJsonSaysSo) {
  reply_once(200, "<html>welcome</html>");
  EXPECT_NE(client.get(resources::kPods, "ml", "web").error().message.find("not JSON"),
            std::string::npos);
}

TEST_F(ClientTest, RawPathsGiveTheText) {
  reply_once(200, "line one\nline two\n");
  EXPECT_EQ(client.raw("GET", "/api/v1/namespaces/ml/pods/web/log").value(),
            "line one\nline two\n");
  reply_once(404, "404 page not found");
  EXPECT_EQ(client.raw("GET", "/nowhere").error().code, ErrorCode::kNotFound);
}

// --- watches ------------------------------------------------------------------------------

TEST_F(ClientTest, AWatchDeliversLinesHoweverTheyAreCut) {
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    for (const char* part : {"one\ntw", "o\n", "\n", "three\nfour"}) connection.chunk(part);
    connection.end_stream();
    return true;
  });
  std::vector<std::string> lines;
  const StreamEnd end = client.watch(
      resources::kPods, {},
      [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
      },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kClosed);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three", "four"}));
}

TEST_F(ClientTest, HalfALineIsNotDeliveredWhenTheStreamBreaks) {
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    connection.chunk("one\n");
    connection.half_chunk_then_cut("tw");
    return true;
  });
  std::vector<std::string> lines;
  const StreamEnd end = client.watch(
      resources::kPods, {},
      [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
      },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kBroken);
  EXPECT_EQ(lines, std::vector<std::string>{"one"});
}

TEST_F(ClientTest, AWatchThatIsRefusedCarriesTheAnswer) {
  reply_once(403, fake_status(403, "Forbidden", "no list for you"));
  const StreamEnd end = client.watch(
      resources::kPods, {}, [](std::string_view) { return true; }, Cancellation());
  ASSERT_EQ(end.kind, StreamEnd::Kind::kStatus);
  EXPECT_EQ(end.response.status, 403);
  EXPECT_NE(end.response.body.find("no list for you"), std::string::npos);
}

TEST_F(ClientTest, ASilentWatchTimesOut) {
  const StreamEnd end = client.watch(
      resources::kPods, {.idle_timeout = milliseconds(100)}, [](std::string_view) { return true; },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kTimeout);
}

TEST_F(ClientTest, HeadersThatDoNotComeTimeOut) {
  hang_once();
  const StreamEnd end = client.watch(
      resources::kPods, {.start_timeout = milliseconds(100)}, [](std::string_view) { return true; },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kTimeout);
}

TEST_F(ClientTest, AWatchIsCancelledFromAnotherThread) {
  Cancellation cancel;
  server.put(kPodsPath, pod("ml", "web"));
  std::thread other;
  const StreamEnd end = client.watch(
      resources::kPods, {.resource_version = "0"},
      [&](std::string_view) {
        other = std::thread([cancel] { cancel.cancel(); });
        return true;
      },
      cancel);
  other.join();
  EXPECT_EQ(end.kind, StreamEnd::Kind::kCancelled);
}

TEST_F(ClientTest, TheHandlerCanStopAWatch) {
  server.put(kPodsPath, pod("ml", "web"));
  const StreamEnd end = client.watch(
      resources::kPods, {.resource_version = "0"}, [](std::string_view) { return false; },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kStopped);
}

// A server that sends faster than we take must wait: what it can get rid of is bounded by the
// sockets' buffers, not by our memory.
TEST_F(ClientTest, AFastServerWaitsForASlowReader) {
  std::atomic<size_t> sent{0};
  server.script([&](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream();
    const std::string line(64 << 10, 'x');
    for (int i = 0; i < 2000; ++i) {
      connection.chunk(line + "\n");
      ++sent;
    }
    connection.end_stream();
    return true;
  });
  int taken = 0;
  size_t ahead = 0;
  const StreamEnd end = client.watch(
      resources::kPods, {},
      [&](std::string_view) {
        if (++taken == 10) {
          // Wait until the server cannot go on.
          for (size_t before = SIZE_MAX; before != sent;) {
            before = sent;
            std::this_thread::sleep_for(milliseconds(200));
          }
          ahead = sent - 10;
        }
        return true;
      },
      Cancellation());
  EXPECT_EQ(end.kind, StreamEnd::Kind::kClosed);
  EXPECT_EQ(taken, 2000);
  EXPECT_LT(ahead, 1000U);
}

}  // namespace
}  // namespace compilecache::kube
