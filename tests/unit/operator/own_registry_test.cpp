#include "operator/cluster/own_registry.hpp"

#include <gtest/gtest.h>

#include "operator/registry_locator.hpp"
#include "tests/unit/operator/control_fixture.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using test::client_of;
using testing::FakeApiServer;

void put_service(FakeApiServer& server, const std::string& address) {
  server.put("/api/v1/services",
             {{"metadata", {{"name", "compilecache-registry"}, {"namespace", "system"}}},
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
  KnownRegistry known;
  const RegistryLocator locator(client_of(server), "system",
                                [&](const api::OwnRegistry& found) { known.set(found); });
  ASSERT_TRUE(locator.look());
  put_service(server, "None");
  EXPECT_FALSE(locator.look());
  EXPECT_EQ(known.get().address, "10.96.0.7:5001");
  server.erase("/api/v1/services", "system", "compilecache-registry");
  ASSERT_TRUE(locator.look());
  EXPECT_FALSE(known.get().installed());
}

}  // namespace
}  // namespace compilecache::controller
