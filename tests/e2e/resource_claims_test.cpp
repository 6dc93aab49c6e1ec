#include "tests/e2e/sandbox.hpp"

// GPUs that pods get by resourceClaims. Scheduler and kubelet are real, and so is the library that
// speaks to both; the driver of the devices (devices.json, as NVIDIA's publishes them) has none.

namespace compilecache::e2e {
namespace {

constexpr char kHopper[] = "NVIDIA-H100-80GB-HBM3";
constexpr char kAmpere[] = "NVIDIA-A100-SXM4-80GB";
constexpr char kSlice[] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb";

class ResourceClaims : public Sandbox {
 protected:
  // A template of claims for `count` devices that the expression chooses.
  void create_template(const std::string& name, const std::string& expression, int count = 1) {
    const json selector = {{"cel", {{"expression", expression}}}};
    const json device = {{"deviceClassName", ns()},
                         {"allocationMode", "ExactCount"},
                         {"count", count},
                         {"selectors", json::array({selector})}};
    const json request = {{"name", "gpu"}, {"exactly", device}};
    const json claim = {{"spec", {{"devices", {{"requests", json::array({request})}}}}}};
    ASSERT_EQ(testing::apply({{"apiVersion", "resource.k8s.io/v1"},
                              {"kind", "ResourceClaimTemplate"},
                              {"metadata", {{"name", name}, {"namespace", ns()}}},
                              {"spec", claim}}),
              "");
  }

  void SetUp() override {
    Sandbox::SetUp();
    const json driver{{"cel", {{"expression", "device.driver == 'gpu.nvidia.com'"}}}};
    ASSERT_EQ(testing::apply({{"apiVersion", "resource.k8s.io/v1"},
                              {"kind", "DeviceClass"},
                              {"metadata", {{"name", ns()}}},
                              {"spec", {{"selectors", json::array({driver})}}}}),
              "");
    const std::string of = "device.attributes['gpu.nvidia.com']";
    create_template("h100", of + ".productName.contains('H100')");
    create_template("two-h100", of + ".productName.contains('H100')", 2);
    create_template("a100", of + ".productName.contains('A100') && " + of + ".type == 'gpu'");
    create_template("slice", of + ".type == 'mig'");
  }
  void TearDown() override {
    kubectl({"delete", "deviceclass", ns()});
    Sandbox::TearDown();
  }

  // How many kernels the pod compiled; null when it did not get ready.
  json compiled_by(const std::string& name, const std::string& claims) {
    json pod = manifest({name, {}});
    pod["spec"]["resourceClaims"] =
        json::array({{{"name", "gpu"}, {"resourceClaimTemplateName", claims}}});
    pod["spec"]["containers"][0]["resources"]["claims"] = json::array({{{"name", "gpu"}}});
    EXPECT_EQ(testing::apply(pod), "");
    return at(wait_for_result(name), "/misses");
  }
};

TEST_F(ResourceClaims, GiveAPodTheArchiveOfTheDevicesThatTheSchedulerChose) {
  create_cache();
  wait_until_ready();
  EXPECT_GE(compiled_by("hopper-one", "h100").get<int>(), 1);
  const json hopper = wait_for_save(1, kHopper);
  EXPECT_EQ(at(hopper, "/spec/key/GPUCount"), "1");
  remove_pod("hopper-one");
  EXPECT_GE(compiled_by("ampere-one", "a100").get<int>(), 1) << "given the other product's archive";
  wait_for_save(1, kAmpere);
  remove_pod("ampere-one");

  EXPECT_EQ(compiled_by("hopper-two", "h100"), 0) << logs("hopper-two", "compilecache-load");
  // Both of its kind, one of which the pod beside has, so it waits for that one to go.
  remove_pod("hopper-two");
  EXPECT_GE(compiled_by("two-hoppers", "two-h100").get<int>(), 1);
  EXPECT_TRUE(eventually(seconds(90), [&] { return archives().size() == 3; })) << archives();
  EXPECT_GE(compiled_by("sliced", "slice").get<int>(), 1) << "given a whole GPU's archive";
  wait_for_save(1, kSlice);
  EXPECT_EQ(compiled_by("ampere-two", "a100"), 0) << logs("ampere-two", "compilecache-load");
}

}  // namespace
}  // namespace compilecache::e2e
