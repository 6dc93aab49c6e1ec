#include "api/archive_key.hpp"

#include <gtest/gtest.h>

namespace compilecache::api {
namespace {

KeyBasis gpu_pod() {
  return {{"GPUProduct", "GPUCount", "Architecture", "Image"},
          "nvidia.com/gpu",
          2,
          "app:1",
          "",
          "",
          ""};
}

TEST(ArchiveKey, HoldsThePartsAskedFor) {
  const auto key = make_key(gpu_pod(), {"NVIDIA-H100-80GB-HBM3", "amd64", "", ""});
  ASSERT_TRUE(key);
  EXPECT_EQ(*key, (ArchiveKey{{"GPUProduct", "NVIDIA-H100-80GB-HBM3"},
                              {"GPUCount", "2"},
                              {"Architecture", "amd64"},
                              {"Image", "app:1"}}));
}

TEST(ArchiveKey, ArchivesForTwoKindsOfCpuAreTwoOfOneKey) {
  const ArchiveKey key{{"GPUProduct", "cpu-amd64"}, {"Image", "app:1"}};
  const ArchiveKey avx2 = with_cpu(key, "avx2-1");
  EXPECT_NE(archive_name("c", avx2), archive_name("c", with_cpu(key, "avx512-2")));
  EXPECT_TRUE(is_same_but_cpu(avx2, key));
  EXPECT_FALSE(is_same_but_cpu(avx2, {{"GPUProduct", "cpu-amd64"}, {"Image", "app:2"}}));
  EXPECT_TRUE(is_compatible(avx2, {{"GPUProduct", "cpu-amd64"}, {"Image", "app:2"}}));
  EXPECT_EQ(cpu_of(avx2), "avx2-1");
  EXPECT_EQ(with_cpu(avx2, ""), key);
}

TEST(ArchiveKey, CodeFitsTheCpuThatItWasCompiledFor) {
  const ArchiveKey avx2{{"CPU", "avx2-1"}};
  EXPECT_EQ(cpu_fit(avx2, "avx2-1"), CpuFit::kOwn);
  EXPECT_EQ(cpu_fit(avx2, "avx512-2"), CpuFit::kOther);
  EXPECT_EQ(cpu_fit(avx2, ""), CpuFit::kOther);
  EXPECT_EQ(cpu_fit({{"CPU", "unknown"}}, "unknown"), CpuFit::kOther);
  EXPECT_EQ(cpu_fit({{"CPU", "any"}}, "unknown"), CpuFit::kAny);
  EXPECT_EQ(cpu_fit({}, "avx2-1"), CpuFit::kUnproven);
  EXPECT_EQ(cpu_fit({}, ""), CpuFit::kOwn) << "release 0.2 saved it, and asks for it";
}

TEST(ArchiveKey, WithoutAGpuTheProductIsTheProcessor) {
  KeyBasis basis = gpu_pod();
  basis.gpu_resource.clear();
  basis.gpu_count = 0;
  const auto key = make_key(basis, {"NVIDIA-H100-80GB-HBM3", "amd64", "", "avx512"});
  ASSERT_TRUE(key);
  EXPECT_EQ(key->at("GPUProduct"), "cpu-amd64");
  EXPECT_EQ(key->at("CPUFeatures"), "avx512");
}

TEST(ArchiveKey, AGpuWithoutALabelHasNoKeyYet) {
  const auto key = make_key(gpu_pod(), {"", "amd64", "", ""});
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, ErrorCode::kUnavailable);
}

TEST(ArchiveKey, ClaimedDevicesCountAsIfTheNodeHadToldThem) {
  KeyBasis basis = gpu_pod();
  const NodeFacts node{"NVIDIA-A100", "amd64", "", ""};
  const auto by_label = make_key(basis, {"NVIDIA-H100", "amd64", "", ""});
  basis.gpu_resource = kClaimedDevices;
  basis.gpu_count = 0;
  basis.claims = {"gpu"};
  const DeviceFacts devices{"NVIDIA-H100", 2, "570.86.15"};
  const auto by_claim = make_key(basis, node, &devices);
  ASSERT_TRUE(by_claim) << by_claim.error().message;
  EXPECT_EQ(*by_claim, *by_label) << "the node's own label counts for nothing";
  basis.parts.emplace_back(kDriverVersionPart);
  EXPECT_EQ(make_key(basis, node, &devices)->at(kDriverVersionPart), "570.86.15");
}

TEST(ArchiveKey, WithoutTheDevicesOfItsClaimsAPodHasNoKey) {
  KeyBasis basis = gpu_pod();
  basis.claims = {"gpu"};
  const NodeFacts labelled{"NVIDIA-H100", "amd64", "", ""};
  EXPECT_FALSE(make_key(basis, labelled));
  const DeviceFacts silent{"NVIDIA-H100", 1, ""};
  EXPECT_TRUE(make_key(basis, labelled, &silent));
  basis.parts.emplace_back(kDriverVersionPart);
  const auto unknown = make_key(basis, labelled, &silent);
  ASSERT_FALSE(unknown) << "the driver's version separates archives here";
  EXPECT_EQ(unknown.error().reason, kDeviceUnknown);
  EXPECT_TRUE(make_key(basis, {"", "amd64", "570", ""}, &silent)) << "the node has it";
}

TEST(ArchiveKey, SharedGpusAreTheSameAndSlicesAreNot) {
  EXPECT_EQ(normalized_gpu_product("NVIDIA-A100-SHARED", "nvidia.com/gpu"), "NVIDIA-A100");
  EXPECT_EQ(normalized_gpu_product("NVIDIA-A100-MIG-1g.5gb", "nvidia.com/gpu"),
            "NVIDIA-A100-MIG-1g.5gb");
  EXPECT_EQ(normalized_gpu_product("NVIDIA-A100", "nvidia.com/mig-1g.5gb"),
            "NVIDIA-A100-MIG-1g.5gb");
  EXPECT_EQ(normalized_gpu_product("NVIDIA-A100", "nvidia.com/mig-1g.5gb.shared"),
            "NVIDIA-A100-MIG-1g.5gb");
}

TEST(ArchiveKey, VersionAndDirectoriesAlwaysCount) {
  KeyBasis basis = gpu_pod();
  const auto plain = make_key(basis, {"G", "amd64", "", ""});
  basis.version = "2";
  const auto version = make_key(basis, {"G", "amd64", "", ""});
  basis.directories = "torch=/mine";
  const auto directories = make_key(basis, {"G", "amd64", "", ""});
  EXPECT_NE(archive_name("c", *plain), archive_name("c", *version));
  EXPECT_NE(archive_name("c", *version), archive_name("c", *directories));
}

TEST(ArchiveKey, CompatibleMeansAllButTheImage) {
  const ArchiveKey one{{"GPUProduct", "G"}, {"Image", "app:1"}};
  EXPECT_TRUE(is_compatible(one, {{"GPUProduct", "G"}, {"Image", "app:2"}}));
  EXPECT_FALSE(is_compatible(one, {{"GPUProduct", "H"}, {"Image", "app:1"}}));
  EXPECT_FALSE(is_compatible(one, {{"GPUProduct", "G"}, {"Image", "app:2"}, {"Version", "2"}}));
}

TEST(ArchiveKey, NamesAreTheCacheAndAHash) {
  const std::string name = archive_name("web", {{"GPUProduct", "G"}});
  EXPECT_EQ(name.substr(0, 4), "web-");
  EXPECT_EQ(name.size(), 14U);
  EXPECT_EQ(name, archive_name("web", {{"GPUProduct", "G"}}));
  EXPECT_NE(archive_name("web", {{"A", "B"}, {"C", "D"}}),
            archive_name("web", {{"A", "BC"}, {"", "D"}}));
}

}  // namespace
}  // namespace compilecache::api
