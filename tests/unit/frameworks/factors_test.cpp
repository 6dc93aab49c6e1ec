#include "frameworks/factors.hpp"

#include <gtest/gtest.h>

namespace compilecache::frameworks {
namespace {

using Names = std::vector<std::string>;

constexpr char kKey[] = "11111111-2222-3333-4444-555555555555";

// As vLLM writes it; shortened.
constexpr char kLoaded[] = R"({
  "code_hash": "a3c7", "compiler_hash": "4fc2", "config_hash": "2a38",
  "env": {"VLLM_HOST_IP": "10.0.0.7", "VLLM_PORT": null, "NVCC_THREADS": null, "VLLM_USE_V1": true}})";

Names differing(const std::string& loaded, const std::string& made) {
  const auto before = read_factors(loaded, kKey);
  const auto after = read_factors(made, kKey);
  EXPECT_TRUE(before && after);
  if (!before || !after) return {"?"};
  return differing_factors(*before, *after).value_or(Names{"?"});
}

TEST(Factors, TheSameKeyHasNoDifference) { EXPECT_EQ(differing(kLoaded, kLoaded), Names{}); }

TEST(Factors, VariablesAreNamed) {
  const std::string made = R"({
    "code_hash": "a3c7", "compiler_hash": "4fc2", "config_hash": "2a38",
    "env": {"VLLM_HOST_IP": "10.0.0.8", "VLLM_PORT": "8000", "NVCC_THREADS": null, "VLLM_USE_V1": true}})";
  EXPECT_EQ(differing(kLoaded, made), (Names{"VLLM_HOST_IP", "VLLM_PORT"}));
}

// Another version of vLLM knows other variables, which nobody has set.
TEST(Factors, WhatOneHasAloneIsNotNamed) {
  const std::string made = R"({
    "code_hash": "a3c7", "compiler_hash": "ffff", "config_hash": "2a38",
    "env": {"VLLM_HOST_IP": "10.0.0.7", "VLLM_NEW": 1, "VLLM_NEWER": null}})";
  EXPECT_EQ(differing(kLoaded, made), Names{"compiler_hash"});
}

TEST(Factors, BareHashesAreNamed) {
  const std::string made = R"({
    "code_hash": "ffff", "compiler_hash": "4fc2", "config_hash": "0000",
    "env": {"VLLM_HOST_IP": "10.0.0.7", "VLLM_PORT": null, "NVCC_THREADS": null, "VLLM_USE_V1": true}})";
  EXPECT_EQ(differing(kLoaded, made), (Names{"code_hash", "config_hash"}));
}

TEST(Factors, WhatTravelsTellsNoValueAndNoEqualValues) {
  const auto factors = read_factors(
      R"({"hash": "h", "env": {"VLLM_API_KEY": "s3cret", "OTHER": "s3cret", "SHORT": 1}})", kKey);
  ASSERT_TRUE(factors);
  const std::string text = dump(*factors);
  EXPECT_EQ(text.find("s3cret"), std::string::npos);
  EXPECT_NE(factors->digests.at("env/VLLM_API_KEY"), factors->digests.at("env/OTHER"));
  EXPECT_EQ(parse_factors(text).value(), *factors);
  const auto elsewhere =
      read_factors(R"({"env": {"SHORT": 1}})", "99999999-2222-3333-4444-555555555555");
  EXPECT_NE(elsewhere->digests.at("env/SHORT"), factors->digests.at("env/SHORT"))
      << "nobody without the key can try values";
  EXPECT_FALSE(differing_factors(*factors, *elsewhere)) << "not to be compared";
}

TEST(Factors, WhatIsNoNameIsNotTold) {
  EXPECT_EQ(differing(R"({"a secret = 1": 0, "B": 1})", R"({"a secret = 1": 1, "B": 2})"),
            Names{"B"});
  const std::string longest(65, 'x');
  EXPECT_EQ(differing("{\"" + longest + "\": 0}", "{\"" + longest + "\": 1}"), Names{});
  EXPECT_EQ(differing(R"({"a/b": {"c": 0}})", R"({"a/b": {"c": 1}})"), Names{});
}

TEST(Factors, OtherTextsAreRefused) {
  EXPECT_FALSE(read_factors("[]", kKey));
  EXPECT_FALSE(read_factors("{\"half\": ", kKey));
  const std::string good = dump(*read_factors(kLoaded, kKey));
  ASSERT_TRUE(parse_factors(good));
  for (const std::string& bad : {std::string(), std::string("x"), good + "0123456789abcdef a b\n",
                                 good + "x\n", good.substr(0, good.size() - 30)}) {
    EXPECT_FALSE(parse_factors(bad)) << bad;
  }
}

TEST(Factors, ADamagedDigestIsRefused) {
  std::string text = dump(*read_factors(R"({"a": 1})", kKey));
  ASSERT_TRUE(parse_factors(text));
  text[text.find('\n') + 1] = 'z';
  EXPECT_FALSE(parse_factors(text));
}

TEST(Factors, NoMoreAreNotedThanAreReadBack) {
  std::string many = "{\"last\": 0";
  for (int i = 0; i < 2000; ++i) many += ", \"v" + std::to_string(i) + "\": 1";
  const auto factors = read_factors(many + "}", kKey);
  ASSERT_TRUE(factors);
  EXPECT_EQ(factors->digests.size(), 1000u);
  EXPECT_EQ(parse_factors(dump(*factors)).value(), *factors);
}

// The file is the application's: nothing in it may end the saver.
// The file is the application's.
TEST(Factors, WhatNoEngineWritesIsRefusedBeforeAnyOfItIsKept) {
  const std::string deep = "{\"a\": " + std::string(60'000, '[') + std::string(60'000, ']') + "}";
  EXPECT_FALSE(read_factors(deep, kKey));
  std::string wide = "{\"a\": [";
  while (wide.size() < 120'000) wide += "{},";
  EXPECT_FALSE(read_factors(wide + "{}]}", kKey));
}

}  // namespace
}  // namespace compilecache::frameworks
