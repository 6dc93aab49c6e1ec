#include "kube/protobuf.hpp"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "kube/json.hpp"
#include "kube/reflector.hpp"
#include "kube/store.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/kube/server_test.hpp"

namespace compilecache::kube {
namespace {

constexpr char kContentType[] = "application/vnd.kubernetes.protobuf;stream=watch";

std::string read_file(const std::string& name) {
  std::ifstream file(testing::testdata("kube/") + name, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The frames of a stream, without their lengths.
std::vector<std::string> frames_of(const std::string& stream) {
  std::vector<std::string> frames;
  for (size_t at = 0; at + 4 <= stream.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | uint8_t(stream[at + i]);
    frames.push_back(stream.substr(at + 4, length));
    at += 4 + length;
  }
  return frames;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// All that protobuf::kPod can read.
Fields everything() {
  const Fields object{"/metadata/name",
                      "/metadata/generateName",
                      "/metadata/uid",
                      "/metadata/generation",
                      "/metadata/creationTimestamp",
                      "/metadata/deletionTimestamp",
                      "/metadata/deletionGracePeriodSeconds",
                      "/metadata/labels",
                      "/metadata/annotations",
                      "/metadata/ownerReferences",
                      "/spec/nodeName",
                      "/spec/serviceAccountName",
                      "/status/phase",
                      "/status/conditions/type",
                      "/status/conditions/status",
                      "/status/conditions/reason",
                      "/status/conditions/message",
                      "/status/initContainerStatuses",
                      "/status/containerStatuses"};
  return object.within("object", {"/type"});
}

// Empty text and zero are left out in the one where they are said in the other.
void drop_empty(Json& json) {
  if (!json.is_structured()) return;
  for (auto it = json.begin(); it != json.end();) {
    drop_empty(*it);
    const bool empty = it->is_null() || *it == 0 ||
                       (it->is_string() && it->get_ref<std::string&>().empty()) ||
                       (it->is_structured() && it->empty());
    it = empty && json.is_object() ? json.erase(it) : std::next(it);
  }
}

TEST(Protobuf, AnEventSaysTheSameAsInJson) {
  const auto frames = frames_of(read_file("watch.protobuf"));
  const auto lines = lines_of(read_file("watch.json"));
  ASSERT_EQ(frames.size(), 2U);
  ASSERT_EQ(frames.size(), lines.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    Json event = protobuf::parse_event(frames[i], protobuf::kPod, everything());
    Json expected = parse_json(lines[i], everything());
    ASSERT_FALSE(event.is_discarded());
    drop_empty(event);
    drop_empty(expected);
    EXPECT_EQ(event, expected);
  }
}

TEST(Protobuf, OnlyWhatIsWantedIsRead) {
  const std::string frame = frames_of(read_file("watch.protobuf")).front();
  const Fields wanted = Fields{"/metadata/labels/app"}.within("object", {"/type"});
  const Json event = protobuf::parse_event(frame, protobuf::kPod, wanted);
  EXPECT_EQ(event["object"]["metadata"]["labels"], Json({{"app", "web"}}));
  EXPECT_FALSE(event["object"]["metadata"].contains("uid"));
  EXPECT_FALSE(event["object"].contains("status"));
}

TEST(Protobuf, AListKeepsItsFirstElements) {
  const std::string frame = frames_of(read_file("watch.protobuf")).front();
  const Json all = protobuf::parse_event(frame, protobuf::kPod, everything());
  const Json bounded = protobuf::parse_event(frame, protobuf::kPod, everything().with_elements(1));
  const Json::json_pointer conditions("/object/status/conditions");
  ASSERT_GT(all.at(conditions).size(), 1U);
  EXPECT_EQ(bounded.at(conditions), Json::array({all.at(conditions).at(0)}));
}

TEST(Protobuf, DamagedEventsAreRefusedOrReadInPart) {
  const std::string frame = frames_of(read_file("watch.protobuf")).front();
  const Fields all = everything();
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_TRUE(protobuf::parse_event(frame.substr(0, size), protobuf::kPod, all).is_discarded())
        << size;
  }
  std::mt19937 random(7);
  for (int i = 0; i < 2'000; ++i) {
    std::string damaged = frame;
    for (int n = 0; n < 4; ++n) damaged[random() % damaged.size()] = char(random());
    const Json event = protobuf::parse_event(damaged, protobuf::kPod, all);
    EXPECT_TRUE(event.is_discarded() || event["object"].is_object());
  }
}

using ProtobufTest = ServerTest;

TEST_F(ProtobufTest, FramesAreCutWhereverTheirChunksEnd) {
  const std::string stream = read_file("watch.protobuf");
  for (const size_t size : {size_t(1), size_t(3), size_t(1000), stream.size()}) {
    server.script([&](const FakeRequest& request, FakeConnection& connection) {
      EXPECT_EQ(request.headers.at("accept"), std::string(kContentType) + ", application/json");
      connection.begin_stream(kContentType);
      for (size_t at = 0; at < stream.size(); at += size) {
        connection.chunk(stream.substr(at, size));
      }
      connection.end_stream();
      return true;
    });
    std::vector<std::string> got;
    const StreamEnd end = client.watch(
        resources::kPods, {.protobuf = true},
        [&](std::string_view frame) {
          got.emplace_back(frame);
          return true;
        },
        Cancellation());
    EXPECT_EQ(end.kind, StreamEnd::Kind::kClosed);
    EXPECT_EQ(got, frames_of(stream)) << "chunks of " << size;
  }
}

TEST_F(ProtobufTest, HalfAFrameIsNoneAndATooLongOneEndsTheStream) {
  const std::string stream = read_file("watch.protobuf");
  const auto watch = [&](const std::string& text) {
    server.script([text](const FakeRequest&, FakeConnection& connection) {
      connection.begin_stream(kContentType);
      connection.chunk(text);
      connection.end_stream();
      return true;
    });
    size_t frames = 0;
    const StreamEnd end = client.watch(
        resources::kPods, {.protobuf = true}, [&](std::string_view) { return ++frames > 0; },
        Cancellation());
    return std::pair(end.kind, frames);
  };
  EXPECT_EQ(watch(stream.substr(0, stream.size() - 1)),
            std::pair(StreamEnd::Kind::kClosed, size_t(1)));
  EXPECT_EQ(watch("\xff\xff\xff\xff..."), std::pair(StreamEnd::Kind::kBroken, size_t(0)));
}

TEST_F(ProtobufTest, AReflectorReadsEitherEncoding) {
  Store<std::string> store;
  const auto uid_of = [](const Json& object) -> Result<std::string> {
    return string_at(object, {"metadata", "uid"});
  };
  const auto start = [&] {
    return std::make_unique<Reflector<std::string>>(
        client,
        ReflectorOptions{
            .resource = resources::kPods,
            .fields = {"/metadata/uid", "/metadata/annotations/k8s.io~1initial-events-end"},
            .protobuf = &protobuf::kPod},
        uid_of, store);
  };
  server.script([&](const FakeRequest&, FakeConnection& connection) {
    connection.begin_stream(kContentType);
    connection.chunk(read_file("watch.protobuf"));
    connection.wait_closed(std::chrono::minutes(1));
    return true;
  });
  auto reflector = start();
  reflector->start();
  ASSERT_TRUE(soon([&] { return store.has_synced(); })) << reflector->health().last_error;
  ASSERT_EQ(store.size(), 1U);
  EXPECT_EQ(*store.list()[0], "fd837e71-c95d-4e20-a4b3-3379bb547323");
  reflector.reset();

  // This server knows JSON only.
  server.put("/api/v1/pods", {{"metadata", {{"namespace", "ml"}, {"name", "web"}}}});
  reflector = start();
  reflector->start();
  EXPECT_TRUE(soon([&] { return store.get("ml/web") != nullptr && store.size() == 1; }));
}

TEST(Protobuf, WhatIsRefusedIsSaidInWords) {
  const Error error = api_error(
      {.status = 404, .headers = {}, .body = read_file("not_found.protobuf")}, "watching");
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message, "watching: no such pod (404 NotFound)");
}

}  // namespace
}  // namespace compilecache::kube
