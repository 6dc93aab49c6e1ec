#include <algorithm>

#include "archive/format.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// Looking after a repository.

namespace compilecache::store::test {
namespace {

class RegistryUpkeepTest : public RegistryTest {
 protected:
  std::vector<std::string> listed() {
    std::vector<std::string> digests;
    const auto blobs = upkeep_.list();
    EXPECT_TRUE(blobs) << blobs.error().message;
    for (const auto& blob : blobs.value_or(std::vector<StoredBlob>{}))
      digests.push_back(blob.digest);
    return digests;
  }
  static std::vector<std::string> sorted(std::vector<std::string> digests) {
    std::sort(digests.begin(), digests.end());
    return digests;
  }
  archive::ArchiveInfo saved(uint64_t seed) {
    const auto written = save(store_, some_tree(seed));
    EXPECT_TRUE(written);
    return written->archive;
  }

  RegistryStore store_{options()};
  Upkeep& upkeep_ = *store_.upkeep();
};

TEST_F(RegistryUpkeepTest, ARepositoryThatIsNotThereYetIsEmpty) { EXPECT_TRUE(listed().empty()); }

TEST_F(RegistryUpkeepTest, WhatArchivesNameIsListed) {
  const auto first = saved(1), second = saved(5);
  auto all = first.blobs();
  for (const std::string& blob : second.blobs()) all.push_back(blob);
  EXPECT_EQ(listed(), sorted(all));
  uint64_t bytes = 0;
  const auto blobs = upkeep_.list();
  for (const StoredBlob& blob : *blobs) bytes += blob.size;
  EXPECT_EQ(bytes, first.compressed_bytes + second.compressed_bytes);
}

TEST_F(RegistryUpkeepTest, ManyTagsComeInPages) {
  registry_.set([](auto& manners) { manners.tags_in_a_page = 2; });
  size_t blobs = 0;
  for (uint64_t i = 0; i < 5; ++i) blobs += saved(10 * i).blobs().size();
  EXPECT_EQ(listed().size(), blobs);
}

TEST_F(RegistryUpkeepTest, WhatSomebodyGaveATagIsKept) {
  const auto first = saved(1), second = saved(5);
  registry_.tag("v1", first.manifest);
  EXPECT_EQ(listed(), sorted(second.blobs()));
}

TEST_F(RegistryUpkeepTest, WhatIsNoArchiveIsLeftAlone) {
  ASSERT_TRUE(upkeep_.prepare({"cluster", "ml", "uid"}, false));
  const auto archive = saved(1);
  EXPECT_EQ(listed(), sorted(archive.blobs()));
  const std::string marker = registry_.tags().at("compilecache-owner");
  const auto counts = upkeep_.remove({marker, archive.config});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 0U);
  EXPECT_EQ(counts->missing, 2U);
  EXPECT_TRUE(registry_.manifests().contains(marker));
}

TEST_F(RegistryUpkeepTest, WhatIsDeletedIsGoneWithItsTag) {
  const auto first = saved(1), second = saved(5);
  EXPECT_EQ(upkeep_.remove({first.manifest, "no digest"}).error().code, ErrorCode::kInvalid);
  const auto counts = upkeep_.remove({first.manifest, "sha256:" + std::string(64, '0')});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 1U);
  EXPECT_EQ(counts->missing, 1U);
  EXPECT_EQ(counts->freed_bytes, first.manifest_bytes);
  EXPECT_EQ(listed(), sorted(second.blobs()));
  EXPECT_EQ(registry_.tags().size(), 1U);
}

TEST_F(RegistryUpkeepTest, ARefusalToDeleteHarmsNothingAndIsNotRepeated) {
  const auto first = saved(1), second = saved(5);
  registry_.set([](auto& manners) { manners.deletes = false; });
  registry_.forget_calls();
  const auto counts = upkeep_.remove({first.manifest, second.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 0U);
  EXPECT_TRUE(counts->failures.empty());
  EXPECT_EQ(registry_.calls(), 2) << "one archive was enough to know";
  EXPECT_TRUE(load(store_, first.manifest));
}

TEST_F(RegistryUpkeepTest, AFailureToDeleteIsNamed) {
  const auto archive = saved(1);
  registry_.refuse([](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (call.method != "DELETE") return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  const auto counts = upkeep_.remove({archive.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->failures.size(), 1U);
}

TEST_F(RegistryUpkeepTest, ItBelongsToWhoPreparedIt) {
  const StoreOwner owner{"cluster-1", "ml", "uid-1"}, other{"cluster-2", "ml", "uid-1"};
  EXPECT_EQ(upkeep_.owner().error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(upkeep_.prepare(owner, false)->created);
  EXPECT_FALSE(upkeep_.prepare(owner, false)->created);
  const auto refused = upkeep_.prepare(other, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kConflict);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("spec.storage.adopt"));
  EXPECT_EQ(*upkeep_.owner(), owner);
  EXPECT_EQ(upkeep_.prepare(other, true)->adopted_from, owner);
  EXPECT_EQ(*upkeep_.owner(), other);
}

TEST_F(RegistryUpkeepTest, ATryIsGivenUpAgain) {
  ASSERT_TRUE(upkeep_.probe());
  EXPECT_EQ(registry_.lines(),
            (std::vector<std::string>{"POST /v2/ml/caches/llama/blobs/uploads/",
                                      "DELETE /v2/ml/caches/llama/blobs/uploads/upload-1"}));
  registry_.refuse([](const auto&) { return FakeRegistry::Answer{.status = 403}; });
  const auto probe = upkeep_.probe();
  ASSERT_FALSE(probe);
  EXPECT_EQ(probe.error().reason, kReasonUnauthorized);
}

}  // namespace
}  // namespace compilecache::store::test
