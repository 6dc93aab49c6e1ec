#include "cli/archives/copy_plan.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace compilecache::cli {
namespace {

using nlohmann::json;

json cache_on_a_claim() {
  return json::parse(R"({
    "metadata": {"name": "llama", "namespace": "ml", "uid": "u", "resourceVersion": "5"},
    "spec": {"frameworks": ["vllm"], "version": "7",
             "storage": {"claimName": "caches", "subPath": "a", "adopt": true,
                         "allowReadWriteOnce": true, "copyFrom": {"claimName": "older"}}},
    "status": {"archives": 3}})");
}

json copied_into(const StoreChoice& store) {
  const json source = cache_on_a_claim();
  const auto from = copy_from(*api::parse_compile_cache(source));
  EXPECT_TRUE(from);
  return copied_cache(source, "llama-2", store, *from);
}

TEST(CopyPlan, TheCopyDiffersInItsStoreAlone) {
  const json made = copied_into({.repository = "r.example.com/ml", .secret = "robot"});
  EXPECT_EQ(made["metadata"], json({{"name", "llama-2"}, {"namespace", "ml"}}));
  EXPECT_EQ(made["spec"]["frameworks"], json({"vllm"}));
  EXPECT_EQ(made["spec"]["version"], "7");
  EXPECT_EQ(made["spec"]["storage"], json::parse(R"({
      "registry": {"repository": "r.example.com/ml", "secretName": "robot"},
      "copyFrom": {"cache": "llama", "claimName": "caches", "subPath": "a"}})"));
  EXPECT_FALSE(made.contains("status"));
}

TEST(CopyPlan, OnAnotherClaimWhatClaimsMayBeStays) {
  EXPECT_EQ(copied_into({.claim = "fast"})["spec"]["storage"], json::parse(R"({
      "claimName": "fast", "allowReadWriteOnce": true,
      "copyFrom": {"cache": "llama", "claimName": "caches", "subPath": "a"}})"));
}

TEST(CopyPlan, WithoutAStoreItIsTheRegistryOfTheInstallation) {
  EXPECT_EQ(copied_into({})["spec"]["storage"], json::parse(R"({
      "copyFrom": {"cache": "llama", "claimName": "caches", "subPath": "a"}})"));
}

TEST(CopyPlan, OfARegistryItsSecretGoesAlong) {
  api::CompileCache source;
  source.metadata.name = "llama";
  source.spec.storage.emplace();
  source.spec.storage->registry = {"r.example.com/ml", "robot", "ca"};
  EXPECT_EQ(*copy_from(source), json::parse(R"({"cache": "llama",
      "registry": {"repository": "r.example.com/ml", "secretName": "robot",
                   "caConfigMapName": "ca"}})"));
  source.spec.storage->registry.reset();
  EXPECT_EQ(*copy_from(source), json::parse(R"({"cache": "llama"})"));
  source.spec.storage.reset();
  EXPECT_FALSE(copy_from(source));
}

TEST(CopyPlan, AWordAboutTheCopyBeforeIsNotTakenForThisOne) {
  using Kind = CopyState::Kind;
  api::CompileCache cache;
  EXPECT_EQ(copy_state(cache, 4).kind, Kind::kUnderWay);
  cache.status.conditions = {
      {.type = "ArchivesCopied", .status = "True", .message = "3", .observed_generation = 3}};
  EXPECT_EQ(copy_state(cache, 4).kind, Kind::kUnderWay);
  EXPECT_EQ(copy_state(cache, 3).kind, Kind::kDone);
  cache.status.conditions[0].status = "False";
  EXPECT_EQ(copy_state(cache, 3).kind, Kind::kFailed);
  EXPECT_EQ(copy_state(cache, 3).message, "3");
  cache.status.conditions[0].status = "Unknown";
  EXPECT_EQ(copy_state(cache, 3).kind, Kind::kUnderWay);
}

}  // namespace
}  // namespace compilecache::cli
