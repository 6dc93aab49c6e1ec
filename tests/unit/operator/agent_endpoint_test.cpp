#include <gtest/gtest.h>

#include "operator/agents/agent_endpoint.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// Where agents reach the leader.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using test::client_of;
using testing::FakeApiServer;

TEST(AgentEndpoint, IsCreatedThenMovesToTheNewLeader) {
  FakeApiServer server;
  const kube::Client client = client_of(server);
  ASSERT_TRUE(write_endpoint_slice(client, "system", "10.0.0.1", 9444));
  ASSERT_TRUE(write_endpoint_slice(client, "system", "10.0.0.2", 9444));
  const auto slices = server.objects("/apis/discovery.k8s.io/v1/endpointslices");
  ASSERT_EQ(slices.size(), 1u);
  const json& slice = slices.begin()->second;
  EXPECT_EQ(slice["endpoints"][0]["addresses"], json::array({"10.0.0.2"}));
  EXPECT_EQ(slice["metadata"]["labels"]["kubernetes.io/service-name"], "compilecache-agent-api");
  EXPECT_EQ(endpoint_slice("system", "fd00::1", 9444)["addressType"], "IPv6");
}

}  // namespace
}  // namespace compilecache::controller
