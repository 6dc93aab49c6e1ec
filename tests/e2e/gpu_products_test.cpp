#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

constexpr char kHopper[] = "NVIDIA-H100-80GB-HBM3";
constexpr char kAmpere[] = "NVIDIA-A100-SXM4-80GB";

// The node is made to have GPUs of a product, as a device plugin and feature discovery would.
class GpuProducts : public Sandbox {
 protected:
  static void label_node(const std::string& product) {
    const json capacity{
        {{"op", "add"}, {"path", "/status/capacity/nvidia.com~1gpu"}, {"value", "8"}}};
    const auto patched = kubectl(
        {"patch", "node", "node0", "--subresource=status", "--type=json", "-p", capacity.dump()});
    ASSERT_EQ(patched.exit_code, 0) << patched.err;
    const auto labelled =
        kubectl({"label", "node", "node0", "--overwrite", "nvidia.com/gpu.product=" + product});
    ASSERT_EQ(labelled.exit_code, 0) << labelled.err;
    ASSERT_TRUE(eventually(seconds(60), [] {
      return at(get_json({"node", "node0"}), "/status/allocatable/nvidia.com~1gpu") == "8";
    }));
  }

  void TearDown() override {
    kubectl({"label", "node", "node0", "nvidia.com/gpu.product-"});
    Sandbox::TearDown();
  }

  json run_on_gpu(const std::string& name) {
    TorchPod pod{name, {}};
    pod.gpus = 1;
    return run_to_ready(pod);
  }
};

TEST_F(GpuProducts, AreKeptApart) {
  create_cache();
  wait_until_ready();
  label_node(kHopper);
  EXPECT_GE(at(run_on_gpu("hopper-one"), "/misses").get<int>(), 1);
  const json hopper = wait_for_save(1, kHopper);
  remove_pod("hopper-one");

  label_node(kAmpere);
  EXPECT_GE(at(run_on_gpu("ampere-one"), "/misses").get<int>(), 1)
      << "given the other product's archive";
  const json ampere = wait_for_save(1, kAmpere);
  remove_pod("ampere-one");

  EXPECT_EQ(archives().size(), 2U);
  EXPECT_NE(at(hopper, "/metadata/name"), at(ampere, "/metadata/name"));
  EXPECT_EQ(at(hopper, "/spec/key/GPUProduct"), kHopper);
  EXPECT_EQ(at(ampere, "/spec/key/GPUProduct"), kAmpere);

  EXPECT_EQ(at(run_on_gpu("ampere-two"), "/misses"), 0);
  remove_pod("ampere-two");
  label_node(kHopper);
  EXPECT_EQ(at(run_on_gpu("hopper-two"), "/misses"), 0);
  json products;
  EXPECT_TRUE(eventually(seconds(30), [&] {
    products = at(cache(), "/status/gpuProducts");
    return products == 2;
  })) << products;
}

}  // namespace
}  // namespace compilecache::e2e
