#include "frameworks/cpu.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace compilecache::frameworks {
namespace {

constexpr const char* kAvx512 =
    "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu MHz\t\t: 2400.000\n"
    "flags\t\t: fpu sse2 avx avx2 fma bmi2 avx512f avx512bw md_clear ibrs\n";
constexpr const char* kAvx2 = "flags\t\t: fpu sse2 avx avx2 fma bmi2\n";

TEST(HostCpu, IsNamedByItsWidestVectors) {
  EXPECT_TRUE(host_cpu(kAvx512, 0, {}).name.starts_with("avx512-"));
  EXPECT_TRUE(host_cpu(kAvx2, 0, {}).name.starts_with("avx2-"));
  EXPECT_TRUE(host_cpu("flags : sse2 avx512f amx_tile\n", 0, {}).name.starts_with("amx-"));
  EXPECT_TRUE(host_cpu("Features : fp asimd sve sve2\n", 128, {}).name.starts_with("sve2-"));
  EXPECT_TRUE(host_cpu("Features : fp asimd\n", 0, {}).name.starts_with("neon-"));
}

TEST(HostCpu, IsTheSameForTheSameInstructions) {
  const std::string patched =
      "processor : 1\nflags : avx512bw avx512f bmi2 fma avx2 avx sse2 retbleed\n";
  EXPECT_EQ(host_cpu(kAvx512, 0, {}).name, host_cpu(patched, 0, {}).name)
      << "what only the kernel uses does not count, nor the order or the clock";
  EXPECT_NE(host_cpu(kAvx2, 0, {}).name,
            host_cpu("flags : fpu sse2 avx avx2 fma bmi2 avx_vnni\n", 0, {}).name);
}

TEST(HostCpu, CountsInstructionsThatNobodyKnowsYet) {
  EXPECT_NE(host_cpu("flags : avx2\n", 0, {}).name, host_cpu("flags : avx2 avx11_1\n", 0, {}).name);
  EXPECT_NE(host_cpu("Features : asimd\n", 0, {}).name,
            host_cpu("Features : asimd sme9\n", 0, {}).name);
}

TEST(HostCpu, TheLengthOfScalableVectorsCounts) {
  const char* sve = "Features : asimd sve bf16\n";
  EXPECT_NE(host_cpu(sve, 128, {}).name, host_cpu(sve, 256, {}).name);
}

// PyTorch compiles for the CPU that this variable names.
TEST(HostCpu, WhatTheApplicationSetsMakesItAnotherOne) {
  const HostCpu as_avx2 = host_cpu(kAvx512, 0, {"ATEN_CPU_CAPABILITY=avx2"});
  EXPECT_TRUE(as_avx2.name.starts_with("avx512-as-avx2-")) << as_avx2.name;
  EXPECT_NE(as_avx2.name, host_cpu(kAvx2, 0, {}).name) << "-march=native is still AVX512";
  EXPECT_NE(as_avx2.name, host_cpu(kAvx512, 0, {"ATEN_CPU_CAPABILITY=default"}).name);
}

TEST(HostCpu, TheNameIsFitForAKey) {
  const std::string name =
      host_cpu(kAvx512, 0, {"ATEN_CPU_CAPABILITY=\"Ä;\n", "B=" + std::string(500, 'x')}).name;
  EXPECT_LE(name.size(), 63u);
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
}

TEST(HostCpu, WithoutFeaturesNothingIsKnown) {
  EXPECT_EQ(host_cpu("", 0, {}).name, "");
  EXPECT_EQ(host_cpu("processor : 0\nflags\t:\n", 0, {"A=b"}).name, "");
}

TEST(HostCpu, ListsItsFeatures) {
  const auto features = host_cpu(kAvx512, 0, {}).features;
  EXPECT_TRUE(std::is_sorted(features.begin(), features.end()));
  EXPECT_EQ(std::count(features.begin(), features.end(), "avx512f"), 1);
  EXPECT_EQ(std::count(features.begin(), features.end(), "md_clear"), 0);
}

}  // namespace
}  // namespace compilecache::frameworks
