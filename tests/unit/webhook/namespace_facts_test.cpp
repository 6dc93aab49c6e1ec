#include "webhook/namespace_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::webhook {
namespace {

using nlohmann::json;

TEST(NamespaceFacts, LimitRangesOfContainersAndPods) {
  const auto rules = parse_limit_range(json::parse(R"({"spec": {"limits": [
      {"type": "Container", "min": {"cpu": "100m"}, "default": {"memory": "1Gi"}},
      {"type": "Pod", "max": {"cpu": "4"}},
      {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}})"));
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->size(), 2U);
  EXPECT_TRUE(rules->at(0).demands_request("cpu"));
  EXPECT_FALSE(rules->at(0).demands_limit("cpu"));
  EXPECT_TRUE(rules->at(0).demands_limit("memory"));
  EXPECT_TRUE(rules->at(1).for_pod);
  EXPECT_FALSE(rules->at(1).demands_limit("cpu"));
}

TEST(NamespaceFacts, QuotasByTheirFullNames) {
  const auto quota = parse_resource_quota(json::parse(R"({"metadata": {"name": "q"},
      "spec": {"hard": {"cpu": "4", "limits.memory": "1Gi"}, "scopes": ["NotTerminating"],
               "scopeSelector": {"matchExpressions": [
                 {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}},
      "status": {"used": {"cpu": "500m"}}})"));
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->hard.at("requests.cpu"), 4000);
  EXPECT_EQ(quota->used.at("requests.cpu"), 500);
  EXPECT_THAT(quota->scopes, ::testing::ElementsAre("NotTerminating"));
  EXPECT_THAT(quota->priority_classes, ::testing::ElementsAre("high"));
}

// The API server holds pods against the others all the same.
TEST(NamespaceFacts, OneAmountThatCannotBeReadLeavesTheOthers) {
  const auto quota = parse_resource_quota(json::parse(R"({"metadata": {"name": "q"},
      "spec": {"hard": {"cpu": "lots", "limits.cpu": "4", "requests.storage": "10Pi",
                        "limits.memory": "10Pi"}},
      "status": {"used": {"limits.cpu": "1", "requests.storage": "2Ei", "cpu": {}}}})"));
  ASSERT_TRUE(quota);
  EXPECT_EQ(quota->hard, (Amounts{{"limits.cpu", 4000}, {"limits.memory", INT64_MAX}}));
  EXPECT_EQ(quota->used, (Amounts{{"limits.cpu", 1000}}));
  const auto rules = parse_limit_range(json::parse(R"({"spec": {"limits": [
      {"type": "Container", "max": {"cpu": "lots", "memory": "1Gi"}, "default": {"memory": "1E"}}
      ]}})"));
  ASSERT_TRUE(rules);
  ASSERT_EQ(rules->size(), 1U);
  EXPECT_EQ(rules->at(0).max, (Amounts{{"memory", 1073741824000}}));
  EXPECT_TRUE(rules->at(0).demands_limit("memory"));
}

// Anyone who may write them may write a megabyte.
TEST(NamespaceFacts, WhatIsKeptIsSmallHoweverLargeTheObject) {
  json quota = {{"metadata", {{"name", "q"}}}};
  json& spec = quota["spec"];
  json range;
  for (int i = 0; i < 20'000; ++i) {
    const std::string number = std::to_string(i);
    spec["hard"]["count/things-" + number] = "1";
    spec["scopes"].push_back("Scope" + number);
    range["spec"]["limits"].push_back(
        {{"type", "Container"}, {"max", {{"example.com/" + number, "1"}}}});
  }
  spec["hard"]["limits.cpu"] = "4";
  json& expression = spec["scopeSelector"]["matchExpressions"][0];
  expression = {{"scopeName", "PriorityClass"}, {"operator", "In"}, {"values", json::array()}};
  const auto with_classes = [&](int count) {
    for (int i = 0; i < count; ++i) expression["values"].push_back("class-" + std::to_string(i));
    return parse_resource_quota(quota);
  };
  EXPECT_EQ(with_classes(3)->priority_classes.size(), 3U);
  const auto kept = with_classes(20'000);
  EXPECT_EQ(kept->hard, (Amounts{{"limits.cpu", 4000}}));
  EXPECT_LE(kept->scopes.size(), 16U);
  EXPECT_TRUE(kept->priority_classes.empty()) << "it counts for every pod";
  EXPECT_LE(parse_limit_range(range)->size(), 8U);
}

TEST(NamespaceFacts, EmptyObjectsSayNothing) {
  EXPECT_TRUE(parse_limit_range(json::object())->empty());
  EXPECT_TRUE(parse_resource_quota(json())->hard.empty());
}

}  // namespace
}  // namespace compilecache::webhook
