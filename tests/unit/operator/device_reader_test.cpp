#include "operator/agents/device_reader.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/cluster/resource_api.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// Reads of the API server for a pod that gets its GPU by a ResourceClaim.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using test::client_of;
using test::ControlTest;

class DeviceReaderTest : public ControlTest {
 protected:
  DeviceReaderTest() {
    pod.ns = "ml";
    pod.name = "web-1";
    pod.uid = "uid-1";
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->key_basis.claims = {"gpu"};
    pod.injection = std::move(injection);
    server.put("/api/v1/pods",
               {{"metadata", {{"namespace", "ml"}, {"name", "web-1"}}},
                {"spec",
                 {{"resourceClaims",
                   json::array({{{"name", "gpu"}, {"resourceClaimTemplateName", "one"}}})}}},
                {"status",
                 {{"resourceClaimStatuses",
                   json::array({{{"name", "gpu"}, {"resourceClaimName", "web-1-gpu"}}})}}}});
    serve({"v1", "v1beta1"});
  }

  void serve(const std::vector<std::string>& versions) {
    served = versions;
    server.script([this](const auto& request, auto& connection) {
      if (request.path != "/apis/resource.k8s.io") return false;
      json list = json::array();
      for (const std::string& version : served) list.push_back({{"version", version}});
      connection.reply(served.empty() ? 404 : 200, json{{"versions", list}}.dump());
      return true;
    });
  }
  void put_claim(const std::string& version = "v1") {
    server.put("/apis/resource.k8s.io/" + version + "/resourceclaims",
               json::parse(R"({"metadata": {"namespace": "ml", "name": "web-1-gpu"},
                 "status": {"allocation": {"devices": {"results": [{"request": "gpu",
                   "driver": "gpu.example.com", "pool": "n1", "device": "g0"}]}}}})"));
  }
  void put_slice(const std::string& version = "v1") {
    server.put("/apis/resource.k8s.io/" + version + "/resourceslices",
               json::parse(R"({"metadata": {"name": "s1"}, "spec": {"driver": "gpu.example.com",
                 "nodeName": "n1", "pool": {"name": "n1", "generation": 1},
                 "devices": [{"name": "g0", "attributes": {"model": {"string": "X 1"}}}]}})"));
  }
  std::string reason() {
    const auto facts = reader.read(pod, "n1");
    return facts ? "none" : facts.error().reason;
  }

  PodView pod;
  std::vector<std::string> served;
  const std::map<std::string, api::DeviceDriver> drivers{{"gpu.example.com", {.product = "model"}}};
  DeviceReader reader{resource_api(client_of(server)), drivers};
};

TEST_F(DeviceReaderTest, AClaimsDevicesAreReadOnceForEachPod) {
  put_claim();
  EXPECT_EQ(reason(), api::kDeviceNotPublished);
  put_slice();
  const auto facts = reader.read(pod, "n1");
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(*facts, (api::DeviceFacts{"X-1", 1, ""}));
  server.erase("/apis/resource.k8s.io/v1/resourceslices", "", "s1");
  EXPECT_EQ(reason(), "none") << "the driver is restarted, and the pod goes on";
  reader.gone(pod.uid);
  EXPECT_EQ(reason(), api::kDeviceNotPublished);
}

// Such a pod's agents go on asking for as long as it runs.
TEST_F(DeviceReaderTest, ADeviceThatIsNoGpuIsLookedAtOnce) {
  put_claim();
  server.put("/apis/resource.k8s.io/v1/resourceslices",
             json::parse(R"({"metadata": {"name": "s1"}, "spec": {"driver": "gpu.example.com",
               "nodeName": "n1", "pool": {"name": "n1", "generation": 1},
               "devices": [{"name": "g0", "attributes": {}}]}})"));
  EXPECT_EQ(reason(), api::kDeviceUnknown);
  const size_t requests = server.requests().size();
  EXPECT_EQ(reason(), api::kDeviceUnknown);
  EXPECT_EQ(server.requests().size(), requests);
}

TEST_F(DeviceReaderTest, AClaimThatIsGoneWasNotAllocated) {
  EXPECT_EQ(reason(), api::kClaimNotAllocated);
}

TEST_F(DeviceReaderTest, TheOlderVersionsAreReadWhereThereIsNoNewer) {
  served = {"v1beta1", "v1alpha3"};
  put_claim("v1beta1");
  put_slice("v1beta1");
  EXPECT_EQ(reason(), "none");
}

TEST_F(DeviceReaderTest, AnApiServerThatRefusesIsNoDeviceless) {
  put_claim();
  put_slice();
  served = {};
  EXPECT_EQ(reason(), api::kDevicesUnreadable) << "it has no version that is known";
}

TEST_F(ControlTest, TheNewestVersionOfTheResourceApiCounts) {
  const auto served = [&](const std::string& body, int status) {
    server.script([=](const auto& request, auto& connection) {
      if (request.path != "/apis/resource.k8s.io") return false;
      connection.reply(status, body);
      return true;
    });
    return served_resource_api(client_of(server));
  };
  EXPECT_EQ(served(R"({"versions": [{"version": "v1beta1"}, {"version": "v1beta2"},
                                    {"version": "v1"}, {"version": "v2"}]})",
                   200)
                .value(),
            "v1");
  EXPECT_EQ(
      served(R"({"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}]})", 200).value(),
      "v1beta2");
  EXPECT_EQ(served(R"({"versions": [{"version": "v1alpha3"}]})", 200).value(), std::nullopt);
  for (const char* none : {"7", "{}", R"({"versions": 7})", "<html>"})
    EXPECT_FALSE(served(none, 200)) << "a proxy's page does not say that there is none";
  EXPECT_EQ(served("{}", 404).value(), std::nullopt);
  EXPECT_FALSE(served("{}", 403)) << "in doubt nothing is said";
}

TEST_F(ControlTest, WhetherClaimsAreServedIsAskedUntilItIsAnswered) {
  const auto answer = [&](int status, const std::string& body) {
    server.script([=](const auto& request, auto& connection) {
      if (request.path != "/apis/resource.k8s.io") return false;
      connection.reply(status, body);
      return true;
    });
  };
  ClaimsWatch watch(client_of(server));
  answer(403, "{}");
  EXPECT_FALSE(watch.look());
  EXPECT_FALSE(watch.served()) << "left alone in doubt";
  answer(200, "<html>");
  EXPECT_FALSE(watch.look());
  answer(200, R"({"versions": [{"version": "v1"}]})");
  EXPECT_TRUE(watch.look());
  EXPECT_TRUE(watch.served());
  const size_t asked = server.requests().size();
  EXPECT_FALSE(watch.look());
  EXPECT_TRUE(watch.served());
  EXPECT_EQ(server.requests().size(), asked) << "it was answered";
}

}  // namespace
}  // namespace compilecache::controller
