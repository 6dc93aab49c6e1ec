#include "agent/index_lookup.hpp"
#include "store/memory/memory_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace compilecache::agent {
namespace {

const api::ArchiveKey kPod{{"GPUProduct", "H100"}, {"GPUCount", "1"}, {"Image", "app:2"}};

api::ArchiveKey with(const std::string& part, const std::string& value) {
  api::ArchiveKey key = kPod;
  key[part] = value;
  return key;
}

store::IndexEntry entry(const std::string& name, const std::string& saved_at,
                        const api::ArchiveKey& key) {
  return {"sha256:" + name, 1, index_annotations(name, 3, saved_at, key)};
}

TEST(IndexLookup, TheExactKeyComesFirst) {
  store::Index index;
  index.entries = {entry("newer", "2026-02-01T00:00:00Z", with("Image", "app:1")),
                   entry("mine", "2026-01-01T00:00:00Z", kPod)};
  const auto found = find_in_index(index, {kPod, true});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->entry.name(), "mine");
  EXPECT_EQ(found->match, api::Match::kExact);
  std::reverse(index.entries.begin(), index.entries.end());
  EXPECT_EQ(find_in_index(index, {kPod, true})->entry.name(), "mine") << "in any order";
}

TEST(IndexLookup, ThenTheNewestOfAnotherImage) {
  store::Index index;
  index.entries = {entry("old", "2026-01-01T00:00:00Z", with("Image", "app:0")),
                   entry("new", "2026-02-01T00:00:00Z", with("Image", "app:1")),
                   entry("older", "2025-02-01T00:00:00Z", with("Image", "app:3"))};
  const auto found = find_in_index(index, {kPod, true});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->entry.name(), "new");
  EXPECT_EQ(found->match, api::Match::kCompatible);
  EXPECT_FALSE(find_in_index(index, {kPod, false}));
}

TEST(IndexLookup, NeverCodeOfAnotherCpu) {
  store::Index index;
  index.entries = {entry("other", "2026-03-01T00:00:00Z", with("CPU", "avx2-1")),
                   entry("old", "2026-02-01T00:00:00Z", kPod)};
  IndexWish wish{kPod, true, "avx512-2"};
  EXPECT_EQ(find_in_index(index, wish)->entry.name(), "old") << "it may turn out to have no code";
  wish.may_prove = false;
  EXPECT_FALSE(find_in_index(index, wish));
  EXPECT_EQ(why_not_found(index, wish), "cpu_mismatch");
  index.entries.push_back(entry("any", "2026-01-01T00:00:00Z", with("CPU", "any")));
  EXPECT_EQ(find_in_index(index, wish)->entry.name(), "any");
  index.entries.push_back(entry("mine", "2026-01-01T00:00:00Z", with("CPU", "avx512-2")));
  EXPECT_EQ(find_in_index(index, wish)->entry.name(), "mine");
  EXPECT_EQ(find_in_index(index, wish)->match, api::Match::kExact);
  index.entries = {entry("old", "", kPod)};
  EXPECT_EQ(why_not_found(index, wish), "cpu_unknown");
}

TEST(IndexLookup, NeverAnotherProductOrCount) {
  store::Index index;
  index.entries = {entry("a", "", with("GPUProduct", "A100")),
                   entry("b", "", with("GPUCount", "8")),
                   entry("c", "", with("DriverVersion", "550"))};
  EXPECT_FALSE(find_in_index(index, {kPod, true}));
}

TEST(IndexLookup, APodWithoutGpuHasItsArchitectureAsProduct) {
  api::AgentConfig config;
  config.key_basis.parts = {"GPUProduct"};
  const SystemClock clock;
  store::MemoryStore store(clock);
  const auto key = local_key(config, store, "node");
  ASSERT_TRUE(key);
  EXPECT_TRUE(key->at("GPUProduct").starts_with("cpu-"));
}

TEST(IndexLookup, ANodeThatNobodyNotedIsNotGuessed) {
  api::AgentConfig config;
  config.key_basis.parts = {"GPUProduct"};
  config.key_basis.gpu_resource = "nvidia.com/gpu";
  const SystemClock clock;
  store::MemoryStore store(clock);
  const auto key = local_key(config, store, "node-7");
  ASSERT_FALSE(key);
  EXPECT_NE(key.error().message.find("node-7"), std::string::npos);
}

// Only the operator can look which devices they were given.
TEST(IndexLookup, APodThatGetsDevicesByClaimsIsNotTakenForOneWithoutAGpu) {
  api::AgentConfig config;
  config.key_basis.parts = {"GPUProduct"};
  config.key_basis.claims = {"gpu"};
  const SystemClock clock;
  store::MemoryStore store(clock);
  EXPECT_FALSE(local_key(config, store, "node"));
}

}  // namespace
}  // namespace compilecache::agent
