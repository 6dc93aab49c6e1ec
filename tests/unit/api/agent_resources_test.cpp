#include "api/agent_resources.hpp"

#include <gtest/gtest.h>

namespace compilecache::api {
namespace {

// The error of the one amount.
std::string trouble_with(std::optional<Quantity> ResourceAmounts::*resource,
                         ResourceAmounts ContainerWish::*list, ContainerWish AgentResources::*of,
                         const char* amount) {
  AgentResources resources;
  resources.*of.*list.*resource = parse_quantity(amount).value();
  return trouble_of(resources);
}

TEST(AgentResources, EachLimitHasALeastBelowWhichThePodWouldSuffer) {
  const auto limits = &ContainerWish::limits;
  const auto load = &AgentResources::load;
  const auto save = &AgentResources::save;
  EXPECT_EQ(trouble_with(&ResourceAmounts::memory, limits, save, "127Mi"),
            "save.limits.memory is less than 128Mi, the least");
  EXPECT_EQ(trouble_with(&ResourceAmounts::memory, limits, load, "128Mi"), "");
  EXPECT_EQ(trouble_with(&ResourceAmounts::cpu, limits, load, "99m"),
            "load.limits.cpu is less than 100m, the least");
  EXPECT_EQ(trouble_with(&ResourceAmounts::cpu, limits, load, "100m"), "");
  EXPECT_EQ(trouble_with(&ResourceAmounts::cpu, limits, save, "9m"),
            "save.limits.cpu is less than 10m, the least");
  EXPECT_EQ(trouble_with(&ResourceAmounts::cpu, limits, save, "10m"), "");
  EXPECT_EQ(trouble_with(&ResourceAmounts::ephemeral_storage, limits, save, "1Mi"),
            "save.limits.ephemeral-storage is less than 128Mi, the least");
  const auto requests = &ContainerWish::requests;
  EXPECT_EQ(trouble_with(&ResourceAmounts::memory, requests, save, "1Mi"), "") << "it limits none";
}

TEST(AgentResources, NothingIsSoLargeThatAUnitIsMissing) {
  const auto requests = &ContainerWish::requests;
  const auto limits = &ContainerWish::limits;
  const auto save = &AgentResources::save;
  EXPECT_EQ(trouble_with(&ResourceAmounts::cpu, requests, save, "500"),
            "save.requests.cpu is more than 64, the most");
  EXPECT_EQ(trouble_with(&ResourceAmounts::memory, limits, save, "65Gi"),
            "save.limits.memory is more than 65536Mi, the most");
  EXPECT_EQ(trouble_with(&ResourceAmounts::ephemeral_storage, limits, save, "1Ti"), "");
}

TEST(AgentResources, ALimitBelowItsRequestIsNone) {
  AgentResources resources;
  resources.load.requests.memory = parse_quantity("1Gi").value();
  resources.load.limits.memory = parse_quantity("1Gi").value();
  EXPECT_EQ(trouble_of(resources), "");
  resources.load.limits.memory = parse_quantity("1023Mi").value();
  EXPECT_EQ(trouble_of(resources), "load.limits.memory is less than load.requests.memory");
}

TEST(AgentResources, OnlyWhatIsSaidStandsOverTheOther) {
  AgentResources base;
  base.save.limits.cpu = Quantity{500};
  base.save.limits.memory = Quantity{1};
  AgentResources over;
  over.save.limits.memory = Quantity{2};
  over.load.requests.cpu = Quantity{3};
  const AgentResources both = merged(base, over);
  EXPECT_EQ(both.save.limits.cpu, Quantity{500});
  EXPECT_EQ(both.save.limits.memory, Quantity{2});
  EXPECT_EQ(both.load.requests.cpu, Quantity{3});
  EXPECT_EQ(amount_of(both.save.limits, "cpu"), Quantity{500});
  EXPECT_EQ(amount_of(both.save.limits, "nvidia.com/gpu"), std::nullopt);
}

}  // namespace
}  // namespace compilecache::api
