#include "operator/cluster/claimed_devices.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;

const std::map<std::string, api::DeviceDriver> kDrivers{
    {"gpu.nvidia.com",
     {.product = "productName",
      .driver_version = "driverVersion",
      .profile = "profile",
      .profile_prefix = "-MIG-",
      .whole_types = {"gpu"}}},
    {"gpu.amd.com", {.product = "productName", .blank = "_"}}};

json device(const std::string& name, json attributes) {
  return {{"name", name}, {"attributes", std::move(attributes)}};
}

json gpu(const std::string& name, const std::string& product = "NVIDIA H100 80GB HBM3") {
  return device(name, {{"type", {{"string", "gpu"}}},
                       {"productName", {{"string", product}}},
                       {"driverVersion", {{"version", "570.86.15"}}},
                       {"minor", {{"int", 0}}}});
}

json mig(const std::string& name, const std::string& profile) {
  json made = gpu(name, "NVIDIA A100-SXM4-40GB");
  made["attributes"]["type"]["string"] = "mig";
  if (!profile.empty()) made["attributes"]["profile"] = {{"string", profile}};
  return made;
}

json slice(const std::vector<json>& devices, int64_t generation = 1,
           const std::string& driver = "gpu.nvidia.com") {
  return {{"spec",
           {{"driver", driver},
            {"nodeName", "n1"},
            {"pool", {{"name", "n1"}, {"generation", generation}, {"resourceSliceCount", 1}}},
            {"devices", devices}}}};
}

AllocatedDevice given(const std::string& name, const std::string& request = "gpu",
                      const std::string& driver = "gpu.nvidia.com") {
  return {request, driver, "n1", name};
}

// A pod that uses one claim, which was given these devices.
ClaimedDevices pod_with(const std::vector<AllocatedDevice>& devices,
                        const std::vector<json>& slices) {
  ClaimedDevices all{.wanted = {"gpus"}, .claims = {{"gpus", devices}}, .drivers = kDrivers};
  for (const json& one : slices) add_slice(one, all.published);
  return all;
}

std::string reason(const ClaimedDevices& devices) {
  const auto facts = device_facts(devices);
  return facts ? "none: " + facts->product : facts.error().reason;
}

TEST(ClaimedDevices, AreCalledAsTheNodesLabelCallsThem) {
  const auto facts = device_facts(
      pod_with({given("gpu-0"), given("gpu-1")}, {slice({gpu("gpu-0"), gpu("gpu-1")})}));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(*facts, (api::DeviceFacts{"NVIDIA-H100-80GB-HBM3", 2, "570.86.15"}));
}

TEST(ClaimedDevices, APartIsNotTheWhole) {
  const auto facts = device_facts(pod_with({given("m0")}, {slice({mig("m0", "1g.5gb")})}));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->product, "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb");
  // Taken for the whole it would get the whole's kernels.
  EXPECT_EQ(reason(pod_with({given("m0")}, {slice({mig("m0", "")})})), api::kDeviceUnknown);
  json untyped = gpu("g");
  untyped["attributes"].erase("type");
  EXPECT_EQ(reason(pod_with({given("g")}, {slice({untyped})})), api::kDeviceUnknown);
}

TEST(ClaimedDevices, EachDriverSpellsAsItsLabelsDo) {
  const json instinct = device("c0", {{"productName", {{"string", "AMD Instinct (MI300X)  OAM"}}}});
  const auto facts = device_facts(
      pod_with({given("c0", "gpu", "gpu.amd.com")}, {slice({instinct}, 1, "gpu.amd.com")}));
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(facts->product, "AMD_Instinct_MI300X_OAM");
  EXPECT_EQ(facts->driver_version, "");
}

TEST(ClaimedDevices, AttributesMayHaveTheDriversDomain) {
  const json spelled = device("g", {{"gpu.nvidia.com/type", {{"string", "gpu"}}},
                                    {"gpu.nvidia.com/productName", {{"string", "NVIDIA L4"}}},
                                    {"other.example.com/productName", {{"string", "Nothing"}}}});
  EXPECT_EQ(device_facts(pod_with({given("g")}, {slice({spelled})}))->product, "NVIDIA-L4");
}

TEST(ClaimedDevices, OlderVersionsHaveTheAttributesOneLevelBelow) {
  json older = gpu("g");
  older["basic"] = {{"attributes", older["attributes"]}};
  older.erase("attributes");
  EXPECT_EQ(device_facts(pod_with({given("g")}, {slice({older})}))->product,
            "NVIDIA-H100-80GB-HBM3");
}

TEST(ClaimedDevices, AnOlderGenerationOfThePoolSaysNothing) {
  const json before = slice({gpu("g", "NVIDIA A100"), gpu("h", "NVIDIA A100")}, 1);
  const json now = slice({gpu("g", "NVIDIA H100")}, 2);
  EXPECT_EQ(device_facts(pod_with({given("g")}, {before, now}))->product, "NVIDIA-H100");
  EXPECT_EQ(device_facts(pod_with({given("g")}, {now, before}))->product, "NVIDIA-H100");
  EXPECT_EQ(reason(pod_with({given("h")}, {before, now})), api::kDeviceNotPublished);
}

TEST(ClaimedDevices, AnotherPoolsDeviceOfThatNameIsAnother) {
  json elsewhere = slice({gpu("g", "NVIDIA A100")}, 9);
  elsewhere["spec"]["pool"]["name"] = "n2";
  EXPECT_EQ(reason(pod_with({given("g")}, {elsewhere})), api::kDeviceNotPublished);
  EXPECT_EQ(device_facts(pod_with({given("g")}, {elsewhere, slice({gpu("g")})}))->product,
            "NVIDIA-H100-80GB-HBM3");
  elsewhere["spec"]["pool"]["generation"] = 1;
  EXPECT_EQ(device_facts(pod_with({given("g")}, {elsewhere, slice({gpu("g")})}))->product,
            "NVIDIA-H100-80GB-HBM3");
}

TEST(ClaimedDevices, DifferentOnesAreCountedByProduct) {
  const json both =
      slice({gpu("a", "NVIDIA A100"), gpu("b", "NVIDIA H100"), gpu("c", "NVIDIA H100")});
  const auto facts = device_facts(pod_with({given("a"), given("b"), given("c")}, {both}));
  EXPECT_EQ(facts->product, "1xNVIDIA-A100+2xNVIDIA-H100");
  EXPECT_EQ(facts->count, 3);
}

TEST(ClaimedDevices, OneThatSeveralContainersUseCountsOnce) {
  ClaimedDevices shared = pod_with({given("g")}, {slice({gpu("g")})});
  shared.wanted = {"again", "gpus"};
  shared.claims["again"] = shared.claims["gpus"];
  EXPECT_EQ(device_facts(shared)->count, 1);
}

TEST(ClaimedDevices, AContainerHasThoseOfTheRequestItNames) {
  ClaimedDevices some =
      pod_with({given("a", "big"), given("b", "small/first"), given("c", "smaller")},
               {slice({gpu("a", "NVIDIA H100"), gpu("b", "NVIDIA L4"), gpu("c", "NVIDIA T4")})});
  some.wanted = {"gpus/small"};
  const auto facts = device_facts(some);
  ASSERT_TRUE(facts) << facts.error().message;
  EXPECT_EQ(*facts, (api::DeviceFacts{"NVIDIA-L4", 1, "570.86.15"}));
  some.wanted = {"gpus"};
  EXPECT_EQ(device_facts(some)->count, 3);
}

TEST(ClaimedDevices, WhatIsNoGpuDoesNotMatterBesideOne) {
  const auto nic = given("eth1", "nic", "dra.net");
  EXPECT_EQ(device_facts(pod_with({nic, given("g")}, {slice({gpu("g")})}))->count, 1);
  EXPECT_EQ(reason(pod_with({nic}, {})), api::kDeviceUnknown);
}

TEST(ClaimedDevices, AClaimWithoutDevicesTellsNothing) {
  EXPECT_EQ(reason(pod_with({}, {slice({gpu("g")})})), api::kClaimNotAllocated);
  ClaimedDevices one_missing = pod_with({given("g")}, {slice({gpu("g")})});
  one_missing.wanted = {"gpus", "more"};
  EXPECT_EQ(reason(one_missing), api::kClaimNotAllocated);
  ClaimedDevices none = pod_with({given("g")}, {slice({gpu("g")})});
  none.wanted = {};
  EXPECT_EQ(reason(none), api::kDeviceUnknown);
}

TEST(ClaimedDevices, TheClaimOfATemplateIsInThePodsStatus) {
  const json pod = json::parse(R"({
    "spec": {"resourceClaims": [{"name": "own", "resourceClaimName": "shared-gpu"},
                                {"name": "made", "resourceClaimTemplateName": "t"},
                                {"name": "later", "resourceClaimTemplateName": "t"}]},
    "status": {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "web-1-made-x7k"},
                                         {"name": "own", "resourceClaimName": "forged"}]}})");
  EXPECT_EQ(claims_of_pod(pod), (std::map<std::string, std::string>{{"own", "shared-gpu"},
                                                                    {"made", "web-1-made-x7k"}}));
}

TEST(ClaimedDevices, WhoOnlyWatchesOverADeviceWasNotGivenIt) {
  const json claim = json::parse(R"({"status": {"allocation": {"devices": {"results": [
    {"request": "a", "driver": "gpu.nvidia.com", "pool": "n1", "device": "g"},
    {"request": "b", "driver": "gpu.nvidia.com", "pool": "n1", "device": "h", "adminAccess": true},
    {"request": "c", "driver": "gpu.nvidia.com", "pool": "n1", "device": "i", "adminAccess": false}
  ]}}}})");
  EXPECT_EQ(allocated_devices(claim),
            (std::vector<AllocatedDevice>{given("g", "a"), given("i", "c")}));
}

// An odd entry is no device, and never a failure.
TEST(ClaimedDevices, OddObjectsTellNothing) {
  for (const char* odd :
       {"null", "[]", "{}", "7", R"({"status": 7})", R"({"status": {"allocation": []}})",
        R"({"status": {"allocation": {"devices": {"results": {}}}}})",
        R"({"spec": {"devices": [7, null, {"name": 7, "attributes": []}]}})",
        R"({"spec": {"resourceClaims": [7, {"name": 7}], "pool": 7}})"}) {
    const json object = json::parse(odd);
    EXPECT_TRUE(allocated_devices(object).empty()) << odd;
    EXPECT_TRUE(claims_of_pod(object).empty()) << odd;
    std::vector<PublishedDevice> devices;
    add_slice(object, devices);
    for (const PublishedDevice& device : devices) EXPECT_TRUE(device.attributes.empty()) << odd;
  }
}

}  // namespace
}  // namespace compilecache::controller
