#include "webhook/patch.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::webhook {
namespace {

using nlohmann::json;

json patch(const json& from, const json& to) {
  const auto result = make_patch(from, to);
  EXPECT_TRUE(result) << result.error().message;
  return result.value_or(json());
}

TEST(Patch, EqualObjectsNeedNone) { EXPECT_EQ(patch({{"a", 1}}, {{"a", 1}}), json::array()); }

TEST(Patch, AMissingArrayIsCreatedOnceAsAWhole) {
  EXPECT_EQ(patch(json::object(), {{"volumes", {1, 2}}}),
            json::parse(R"([{"op": "add", "path": "/volumes", "value": [1, 2]}])"));
}

TEST(Patch, WhatIsAppendedIsAppended) {
  EXPECT_EQ(patch({{"v", {1}}}, {{"v", {1, 2, 3}}}),
            json::parse(R"([{"op": "add", "path": "/v/-", "value": 2},
                            {"op": "add", "path": "/v/-", "value": 3}])"));
}

TEST(Patch, WhatComesFirstIsInsertedAndTheRestNotTouched) {
  EXPECT_EQ(patch({{"v", {"a", "b"}}}, {{"v", {"x", "y", "a", "b"}}}),
            json::parse(R"([{"op": "add", "path": "/v/0", "value": "x"},
                            {"op": "add", "path": "/v/1", "value": "y"}])"));
}

TEST(Patch, AChangeDeepInsideIsOneSmallOperation) {
  EXPECT_EQ(patch({{"c", {{{"n", 1}, {"e", {1}}}, {{"n", 2}}}}},
                  {{"c", {{{"n", 1}, {"e", {1, 2}}}, {{"n", 2}}}}}),
            json::parse(R"([{"op": "add", "path": "/c/0/e/-", "value": 2}])"));
}

TEST(Patch, KeysAreEscaped) {
  EXPECT_EQ(patch({{"m", json::object()}}, {{"m", {{"a/b~c", 1}}}}),
            json::parse(R"([{"op": "add", "path": "/m/a~1b~0c", "value": 1}])"));
}

TEST(Patch, RemovalsAndReplacementsApply) {
  const json from = json::parse(R"({"v": [1, 2, 3, 4, 5], "gone": {}, "type": [1], "x": null})");
  const json to = json::parse(R"({"v": [1, 9, 5], "type": {"a": 1}, "x": [null]})");
  EXPECT_EQ(from.patch(patch(from, to)), to);
  EXPECT_EQ(from.patch(patch(from, json("text"))), json("text"));
}

}  // namespace
}  // namespace compilecache::webhook
