#include "operator/cluster/own_registry.hpp"

#include <gtest/gtest.h>

#include "operator/service_locator.hpp"
#include "tests/unit/operator/control_fixture.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using test::client_of;
using testing::FakeApiServer;

void put_service(FakeApiServer& server, const std::string& address,
                 const char* name = api::kRegistryService) {
  server.put("/api/v1/services",
             {{"metadata", {{"name", name}, {"namespace", "system"}}},
              {"spec", {{"clusterIP", address}, {"ports", json::array({{{"port", 5001}}})}}}});
}

TEST(OwnRegistry, IsTheServiceOfItsName) {
  FakeApiServer server;
  const kube::Client client = client_of(server);
  const auto none = find_own_registry(client, "system");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(none->installed());
  put_service(server, "10.96.0.7");
  EXPECT_EQ(*find_own_registry(client, "system"),
            (api::OwnRegistry{"compilecache-registry.system.svc:5001", "10.96.0.7:5001"}));
  put_service(server, "fd00::7");
  EXPECT_EQ(find_own_registry(client, "system")->address, "[fd00::7]:5001");
  put_service(server, "None");
  EXPECT_EQ(find_own_registry(client, "system").error().code, ErrorCode::kInvalid);
}

TEST(OwnRegistry, WhatWasFoundStaysWhileTheApiServerDoesNotAnswer) {
  FakeApiServer server;
  put_service(server, "10.96.0.7");
  Known<api::OwnRegistry> known;
  const ServiceLocator locator(client_of(server), "system",
                               {[&](const api::OwnRegistry& found) { known.set(found); }, {}});
  ASSERT_TRUE(locator.look());
  put_service(server, "None");
  EXPECT_FALSE(locator.look());
  EXPECT_EQ(known.get().address, "10.96.0.7:5001");
  server.erase("/api/v1/services", "system", "compilecache-registry");
  ASSERT_TRUE(locator.look());
  EXPECT_FALSE(known.get().installed());
}

TEST(AgentServiceLocation, AServiceThatIsDeletedAndCreatedAgainIsFoundAtItsNewAddress) {
  FakeApiServer server;
  put_service(server, "10.96.0.7", api::kAgentService);
  AgentService known;
  const ServiceLocator locator(client_of(server), "system",
                               {{}, [&](const AgentService& found) { known = known.then(found); }});
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(known, (AgentService{"10.96.0.7", ""}));
  server.erase("/api/v1/services", "system", api::kAgentService);
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(known.address, "10.96.0.7") << "the last one stays known";
  EXPECT_NE(known.trouble.find("compilecache-agent-api in system does not exist"),
            std::string::npos)
      << known.trouble;
  put_service(server, "None", api::kAgentService);
  ASSERT_TRUE(locator.look());
  EXPECT_NE(known.trouble.find("no ClusterIP"), std::string::npos) << known.trouble;
  put_service(server, "10.96.0.8", api::kAgentService);
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(known, (AgentService{"10.96.0.8", ""}));
}

TEST(LoadServiceLocation, ItsAddressIsFoundWhereverItMovesAndItMayBeMissing) {
  FakeApiServer server;
  put_service(server, "10.96.0.7", api::kAgentService);
  std::string address = "unknown";
  const ServiceLocator locator(client_of(server), "system",
                               {{}, {}, [&](const std::string& found) { address = found; }});
  ASSERT_TRUE(locator.look()) << "an operator of this release with the manifests of an earlier one";
  EXPECT_EQ(address, "");
  put_service(server, "10.96.0.8", api::kLoadService);
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(address, "10.96.0.8");
  put_service(server, "10.96.0.9", api::kLoadService);
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(address, "10.96.0.9");
  put_service(server, "None", api::kLoadService);
  ASSERT_TRUE(locator.look());
  EXPECT_EQ(address, "");
}

}  // namespace
}  // namespace compilecache::controller
