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

TEST(NamespaceFacts, AQuantityThatIsNoneIsNamed) {
  const auto quota = parse_resource_quota(
      json::parse(R"({"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "lots"}}})"));
  ASSERT_FALSE(quota);
  EXPECT_THAT(quota.error().message, ::testing::HasSubstr("ResourceQuota q.hard.cpu"));
  EXPECT_FALSE(parse_limit_range(
      json::parse(R"({"spec": {"limits": [{"type": "Container", "max": {"cpu": "lots"}}]}})")));
}

TEST(NamespaceFacts, EmptyObjectsSayNothing) {
  EXPECT_TRUE(parse_limit_range(json::object())->empty());
  EXPECT_TRUE(parse_resource_quota(json())->hard.empty());
}

}  // namespace
}  // namespace compilecache::webhook
