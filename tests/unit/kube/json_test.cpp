#include "kube/json.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "kube/gzip_reader.hpp"

namespace compilecache::kube {
namespace {

using Json = nlohmann::json;

// A body in pieces of `size`, that may end with an error.
class Pieces : public BodyReader {
 public:
  Pieces(std::string text, size_t size) : text_(std::move(text)), size_(size) {}
  Result<std::string_view> next() override {
    if (at_ == text_.size() && error) return unexpected(*error);
    piece_ = text_.substr(at_, size_);
    at_ += piece_.size();
    return std::string_view(piece_);
  }
  std::optional<Error> error;

 private:
  const std::string text_;
  const size_t size_;
  size_t at_ = 0;
  std::string piece_;
};

Result<ListHead> read(BodyReader& body, const Fields& fields, std::vector<Json>& items) {
  return read_list(body, fields, [&](Json item) { items.push_back(std::move(item)); });
}

TEST(Fields, NameWhatIsReadAndAllBelowIt) {
  const Json object = parse_json(R"({
    "kind": "Pod",
    "metadata": {"name": "web", "uid": "u", "labels": {"a/b~c": "yes", "other": "no"}},
    "spec": {"nodeName": "n1", "containers": [{"name": "x", "env": [1, 2, {"deep": "}]\"{"}]}]},
    "status": {"containerStatuses": [{"name": "x", "state": {"running": {"startedAt": "now"}},
                                      "image": "i"}, {"name": "y"}]}
  })",
                                 {"/metadata/labels/a~1b~0c", "/status/containerStatuses/name",
                                  "/status/containerStatuses/state", "/spec/nodeName"});
  EXPECT_EQ(object, Json::parse(R"({
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"a/b~c": "yes"}},
    "spec": {"nodeName": "n1"},
    "status": {"containerStatuses": [{"name": "x", "state": {"running": {"startedAt": "now"}}},
                                     {"name": "y"}]}
  })"));
}

TEST(Fields, AWholePartWinsOverAPartOfIt) {
  const char* text = R"({"a": {"b": 1, "c": 2}})";
  EXPECT_EQ(parse_json(text, {"/a", "/a/b"}), Json::parse(text));
  EXPECT_EQ(parse_json(text, {"/a/b", "/a"}), Json::parse(text));
}

TEST(Fields, WithoutAnyAllButManagedFieldsIsRead) {
  const Json object = parse_json(
      R"({"metadata": {"name": "web", "managedFields": [{"f:spec": {}}], "labels": {}},
          "data": {"managedFields": "a key of mine"}})");
  EXPECT_EQ(object, Json::parse(R"({"metadata": {"name": "web", "labels": {}},
                                    "data": {"managedFields": "a key of mine"}})"));
}

TEST(Fields, AListKeepsItsFirstElements) {
  const Fields fields = Fields{"/a", "/b/c"}.with_elements(2);
  EXPECT_EQ(parse_json(R"({"a": [1, [2, 3, 4], {"x": [5, {}]}, [6], null, "7"],
                          "b": [{"c": 1, "d": 2}, {"c": [1, 2, 3]}, {"c": {"e": [[]]}, "d": [4]}],
                          "a2": 0})",
                       fields),
            Json::parse(R"({"a": [1, [2, 3]], "b": [{"c": 1}, {"c": [1, 2]}]})"));
  EXPECT_TRUE(parse_json(R"({"a": [1, 2, 3, {]})", fields).is_discarded());
  Pieces body(R"({"items": [{"a": [1, 2, 3]}, {"a": []}, {"a": [4]}]})", 7);
  std::vector<Json> items;
  ASSERT_TRUE(read(body, fields, items));
  EXPECT_EQ(Json(items), Json::parse(R"([{"a": [1, 2]}, {"a": []}, {"a": [4]}])"));
}

TEST(Fields, NamesAreEscapedAsTheyAreRead) {
  Fields fields{"/metadata/name"};
  fields.add("/" + escaped("a/b~c"));
  EXPECT_EQ(parse_json(R"({"a/b~c": 1, "a": 2})", fields), Json({{"a/b~c", 1}}));
}

TEST(ParseJson, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", R"({"a")", R"({"a":)", R"({"skipped": {"a": [)",
                           R"({"skipped": "a)", R"({"skipped" 1})", "<html>", "{} {}"}) {
    EXPECT_TRUE(parse_json(text, {"/b"}).is_discarded()) << text;
  }
}

TEST(ParseJson, DeepNestingIsNoDanger) {
  const size_t depth = 200000;
  const std::string deep = std::string(depth, '[') + std::string(depth, ']');
  for (const Fields& fields : {Fields{"/wanted"}, Fields{"/other"}}) {
    const Json object = parse_json(R"({"wanted":)" + deep + R"(,"metadata":{"name":"n"}})", fields);
    EXPECT_EQ(string_at(object, {"metadata", "name"}), "n");
  }
}

// A random value; names and texts are full of what has a meaning in JSON.
Json random_value(const Random& random, int depth) {
  static const std::vector<std::string> kTexts{"a", "b", "{", "]}", "\"", "\\", "\\\"", "ä", ""};
  const auto text = [&] { return kTexts[random() % kTexts.size()]; };
  switch (depth > 4 ? random() % 4 : random() % 6) {
    case 0:
      return nullptr;
    case 1:
      return int64_t(random() % 2000) - 1000;
    case 2:
      return random() % 2 == 0;
    case 3:
      return text();
    case 4: {
      Json array = Json::array();
      for (uint64_t i = random() % 4; i > 0; --i) array.push_back(random_value(random, depth + 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (uint64_t i = random() % 5; i > 0; --i) object[text()] = random_value(random, depth + 1);
      return object;
    }
  }
}

// What "/a", "/b/a" and "/b/b" leave.
Json pruned(const Json& value, int level) {
  if (value.is_array()) {
    Json array = Json::array();
    for (const Json& element : value) array.push_back(pruned(element, level));
    return array;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [name, member] : value.items()) {
    if (name == "a" || (level == 1 && name == "b")) object[name] = member;
    if (level == 0 && name == "b") object[name] = pruned(member, 1);
  }
  return object;
}

TEST(ParseJson, OfRandomValuesWhatIsWantedIsLeft) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    const Random random = seeded_random(seed);
    const Json whole = random_value(random, 0);
    const std::string text = whole.dump(random() % 2 == 0 ? -1 : 2);
    EXPECT_EQ(parse_json(text, {"/a", "/b/a", "/b/b"}), pruned(whole, 0)) << seed << ": " << text;
  }
}

TEST(ReadList, GivesItemByItemHoweverTheTextIsCut) {
  const std::string text =
      R"({"kind":"PodList","items":[{"metadata":{"name":"a","uid":"1"},"spec":{"x":[1,"]"]}},)"
      R"({"metadata":{"name":"b"},"spec":{}}],"metadata":{"resourceVersion":"7","continue":"c"}})";
  for (size_t size = 1; size <= text.size(); ++size) {
    Pieces body(text, size);
    std::vector<Json> items;
    const auto head = read(body, {"/spec/y"}, items);
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ(head->resource_version, "7");
    EXPECT_EQ(head->continue_token, "c");
    ASSERT_EQ(items.size(), 2U);
    EXPECT_EQ(items[0], (Json{{"metadata", {{"name", "a"}}}, {"spec", Json::object()}}));
  }
}

TEST(ReadList, AnEmptyListMayBeNull) {
  Pieces body(R"({"metadata":{"resourceVersion":"7"},"items":null})", 5);
  std::vector<Json> items;
  EXPECT_EQ(read(body, {}, items)->resource_version, "7");
  EXPECT_TRUE(items.empty());
}

TEST(ReadList, WhatIsNoListSaysSo) {
  for (const char* text : {"[]", "7", "{}", "<html>", R"({"items":[{"a":1},)"}) {
    Pieces body(text, 3);
    std::vector<Json> items;
    EXPECT_EQ(read(body, {}, items).error().code, ErrorCode::kUnavailable) << text;
  }
}

TEST(ReadList, AnErrorOfTheBodyIsTheResult) {
  Pieces body(R"({"items":[{"a":1},)", 3);
  body.error = Error{ErrorCode::kIo, "cut"};
  std::vector<Json> items;
  EXPECT_EQ(read(body, {}, items).error().message, "cut");
  EXPECT_EQ(items.size(), 1U);
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 4, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Result<std::string> gunzip(const std::string& packed, size_t size) {
  Pieces body(packed, size);
  GzipReader reader(body);
  std::string text;
  while (true) {
    const auto piece = reader.next();
    if (!piece) return unexpected(piece.error());
    if (piece->empty()) return text;
    text += *piece;
  }
}

TEST(GzipReader, GivesThePlainTextHoweverItIsCut) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + ",";
  const std::string packed = gzip(text);
  for (const size_t size : {size_t(1), size_t(7), size_t(4096), packed.size()}) {
    EXPECT_TRUE(gunzip(packed, size) == text) << size;
  }
  EXPECT_EQ(gunzip(gzip(""), 3).value(), "");
}

TEST(GzipReader, WhatIsCutOrNoGzipIsAnError) {
  const std::string packed = gzip(std::string(1000, 'x'));
  EXPECT_EQ(gunzip(packed.substr(0, packed.size() - 1), 5).error().code, ErrorCode::kIo);
  EXPECT_EQ(gunzip("no gzip at all", 5).error().code, ErrorCode::kIo);
  EXPECT_EQ(gunzip(packed + "more", 5).error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace compilecache::kube
