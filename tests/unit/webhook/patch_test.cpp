#include "webhook/patch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/webhook/pods.hpp"

namespace compilecache::webhook {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::to_json;
using testing::tree_of;

TEST(Patch, AMissingListIsMadeOnceAsAWhole) {
  for (const json& without : {json::object(), json{{"v", nullptr}}}) {
    Patch patch;
    append(patch, tree_of(without), "/spec", "v", {"1", "2"});
    EXPECT_EQ(to_json(patch),
              json::parse(R"([{"op": "add", "path": "/spec/v", "value": [1, 2]}])"));
  }
}

TEST(Patch, WhatIsAppendedIsAppended) {
  Patch patch;
  append(patch, tree_of({{"v", json::array()}}), "", "v", {"1", "2"});
  EXPECT_EQ(to_json(patch), json::parse(R"([{"op": "add", "path": "/v/-", "value": 1},
                                            {"op": "add", "path": "/v/-", "value": 2}])"));
}

TEST(Patch, WhatIsInsertedStandsThereInItsOrder) {
  const auto inserted = [](size_t at) {
    Patch patch;
    insert(patch, tree_of({{"v", {"a", "b"}}}), "", "v", at, {R"("x")", R"("y")"});
    return json::parse(R"({"v": ["a", "b"]})").patch(to_json(patch)).at("v");
  };
  EXPECT_EQ(inserted(0), (json{"x", "y", "a", "b"}));
  EXPECT_EQ(inserted(1), (json{"a", "x", "y", "b"}));
  EXPECT_EQ(inserted(2), (json{"a", "b", "x", "y"}));
}

TEST(Patch, NothingToAddIsNoOperation) {
  Patch patch;
  append(patch, tree_of(json::object()), "", "v", {});
  insert(patch, tree_of(json::object()), "", "v", 0, {});
  EXPECT_TRUE(patch.empty());
}

TEST(Patch, NamesAreEscaped) {
  Patch patch;
  put(patch, "/m", "a/b~c", "1");
  EXPECT_EQ(to_json(patch), json::parse(R"([{"op": "add", "path": "/m/a~1b~0c", "value": 1}])"));
}

// What another library makes of it, or an error where that one finds one.
void expect_applied_alike(const json& object, const json& patch) {
  JsonDocument tree = tree_of(object);
  const Status applied = apply(patch.dump(), tree, tree.GetAllocator());
  try {
    const json expected = object.patch(patch);
    ASSERT_TRUE(applied) << patch << applied.error().message;
    EXPECT_EQ(json::parse(to_text(tree)), expected) << patch;
  } catch (const json::exception&) {
    EXPECT_FALSE(applied) << patch;
  }
}

TEST(PatchApplied, AsOtherLibrariesDo) {
  const json object = json::parse(R"({"v": [1, 2, {"a/b": [3]}], "m": {"~": {}, "n": null}})");
  for (const char* path :
       {"/v/0", "/v/1", "/v/3", "/v/-", "/v/2/a~1b/0", "/v/2/a~1b/-", "/m/~0", "/m/~0/x", "/m/new",
        "/m", "/m/n", "/v/4", "/v/x", "/x/y", "/v/2/a/b", "/v/9/x", "/v/-/x"}) {
    expect_applied_alike(object, {{{"op", "add"}, {"path", path}, {"value", {{"k", "v"}}}}});
    if (std::string_view(path).ends_with('-')) continue;  // there is nothing to remove
    expect_applied_alike(object, {{{"op", "remove"}, {"path", path}}});
  }
}

TEST(PatchApplied, WhatDoesNotApplyIsNamed) {
  JsonDocument tree = tree_of({{"spec", {{"v", 7}}}});
  const Status applied =
      apply(R"([{"op":"add","path":"/spec/v/-","value":1}])", tree, tree.GetAllocator());
  ASSERT_FALSE(applied);
  EXPECT_THAT(applied.error().message, HasSubstr("/spec/v/-"));
  EXPECT_FALSE(apply("{", tree, tree.GetAllocator()));
}

}  // namespace
}  // namespace compilecache::webhook
