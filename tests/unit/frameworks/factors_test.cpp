#include "frameworks/factors.hpp"

#include <gtest/gtest.h>

namespace compilecache::frameworks {
namespace {

using Names = std::vector<std::string>;

// As vLLM writes it; shortened.
constexpr char kLoaded[] = R"({
  "code_hash": "a3c7", "compiler_hash": "4fc2", "config_hash": "2a38",
  "env": {"VLLM_HOST_IP": "10.0.0.7", "VLLM_PORT": null, "NVCC_THREADS": null, "VLLM_USE_V1": true}})";

Names differing(const std::string& made) {
  auto names = differing_factors(kLoaded, made);
  EXPECT_TRUE(names.has_value()) << names.error().message;
  return names.value_or(Names{"?"});
}

TEST(Factors, TheSameKeyHasNoDifference) { EXPECT_EQ(differing(kLoaded), Names{}); }

TEST(Factors, VariablesAreNamedAndTheirValuesAreNot) {
  const std::string made = R"({
    "code_hash": "a3c7", "compiler_hash": "4fc2", "config_hash": "2a38",
    "env": {"VLLM_HOST_IP": "10.0.0.8", "VLLM_PORT": null, "VLLM_USE_V1": true, "VLLM_NEW": 1}})";
  EXPECT_EQ(differing(made), (Names{"VLLM_HOST_IP", "VLLM_NEW"}));
}

TEST(Factors, BareHashesAreNamed) {
  const std::string made = R"({
    "code_hash": "ffff", "compiler_hash": "4fc2", "config_hash": "0000",
    "env": {"VLLM_HOST_IP": "10.0.0.7", "VLLM_PORT": null, "NVCC_THREADS": null, "VLLM_USE_V1": true}})";
  EXPECT_EQ(differing(made), (Names{"code_hash", "config_hash"}));
}

TEST(Factors, WhatIsNoNameIsNotTold) {
  EXPECT_EQ(*differing_factors("{}", R"({"a secret = 1": 1, "B": 2})"), Names{"B"});
  EXPECT_EQ(*differing_factors("{}", "{\"" + std::string(65, 'x') + "\": 1}"), Names{});
}

TEST(Factors, OtherFilesAreRefused) {
  EXPECT_FALSE(differing_factors("{}", "[]"));
  EXPECT_FALSE(differing_factors("{\"half\": ", "{}"));
}

// The file is the application's: nothing in it may end the saver.
TEST(Factors, DepthCostsNothing) {
  const std::string deep = "{\"a\": " + std::string(60'000, '[') + std::string(60'000, ']') + "}";
  EXPECT_EQ(*differing_factors(deep, deep), Names{});
  EXPECT_TRUE(differing_factors(deep, "{\"a\": 1}").has_value());
}

}  // namespace
}  // namespace compilecache::frameworks
