#include <algorithm>
#include <nlohmann/json.hpp>

#include "archive/format.hpp"
#include "base/sha256.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/text_source.hpp"
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
  std::vector<std::string> kept() {
    std::vector<std::string> digests;
    const auto blobs = upkeep_.list();
    EXPECT_TRUE(blobs) << blobs.error().message;
    for (const auto& blob : blobs.value_or(std::vector<StoredBlob>{})) {
      if (blob.kept) digests.push_back(blob.digest);
    }
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
  auto all = first.blobs();
  for (const std::string& blob : second.blobs()) all.push_back(blob);
  EXPECT_EQ(listed(), sorted(all)) << "it is there, so nobody misses it";
  EXPECT_EQ(kept(), sorted(first.blobs()));
}

// As some proxies leave it out.
TEST_F(RegistryUpkeepTest, WhatATagNamesIsFoundWithoutTheRegistrySayingSo) {
  const auto archive = saved(1);
  registry_.tag("v1", archive.manifest);
  registry_.on_every_call([](const auto& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "HEAD") return std::nullopt;
    return [](const auto& usual) {
      auto answer = usual();
      std::erase_if(answer.headers,
                    [](const auto& header) { return header.first == "Docker-Content-Digest"; });
      return answer;
    };
  });
  EXPECT_EQ(kept(), sorted(archive.blobs()));
}

class TagsOfAnyKind : public RegistryUpkeepTest {
 protected:
  [[nodiscard]] std::string tag_of(const std::string& manifest) const {
    for (const auto& [tag, digest] : registry_.tags()) {
      if (digest == manifest) return tag;
    }
    return "none";
  }
  // Every call about a tag that begins so.
  void answer_for(const std::string& tag, int status) {
    registry_.refuse([=](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.target.find("/manifests/" + tag) == std::string::npos) return std::nullopt;
      return FakeRegistry::Answer{.status = status};
    });
  }
};

// A link in the registry's storage that is damaged stays so.
TEST_F(TagsOfAnyKind, OneThatTheRegistryCannotReadHidesNoOther) {
  const auto first = saved(1), second = saved(5);
  answer_for(tag_of(first.manifest), 500);
  EXPECT_EQ(listed(), sorted(second.blobs()));
  EXPECT_TRUE(kept().empty());
  answer_for("g", 500);
  EXPECT_TRUE(listed().empty());
}

// It may name any of them.
TEST_F(TagsOfAnyKind, ATagOfSomebodysThatCannotBeReadKeepsAll) {
  const auto archive = saved(1);
  registry_.tag("v1", archive.manifest);
  answer_for("v1", 500);
  EXPECT_EQ(kept(), sorted(archive.blobs()));
}

TEST_F(TagsOfAnyKind, ARegistryThatDoesNotAnswerIsNoEmptyOne) {
  saved(1);
  registry_.tag("v1", saved(5).manifest);
  for (const char* tag : {"g", "v1"}) {
    for (const int status : {429, 502, 503, 504, 403, 302}) {
      answer_for(tag, status);
      EXPECT_FALSE(upkeep_.list()) << tag << " " << status;
    }
  }
}

TEST_F(TagsOfAnyKind, ARegistryThatCanReadNoTagIsAmiss) {
  const auto archive = saved(1);
  for (int i = 0; i < 40; ++i) registry_.tag("v" + std::to_string(i), archive.manifest);
  answer_for("v", 500);
  EXPECT_FALSE(upkeep_.list());
}

// As registry 2.8 does, whatever it is asked for.
TEST_F(TagsOfAnyKind, AnyNumberMayComeAtOnce) {
  const auto archive = saved(1);
  for (int i = 0; i < 4500; ++i) {
    char name[24];
    std::snprintf(name, sizeof(name), "g1-%012x", i);
    registry_.tag(name, "sha256:" + std::string(64, '0'));  // deleted
  }
  registry_.set([](auto& manners) { manners.tags_in_a_page = 100'000; });
  EXPECT_EQ(listed(), sorted(archive.blobs()));
}

TEST_F(TagsOfAnyKind, AManifestThatIsTooLargeIsNobodysArchive) {
  const auto archive = saved(1);
  RegistryClient client(options());
  const nlohmann::json large{{"schemaVersion", 2}, {"padding", std::string(5U << 20, 'x')}};
  ASSERT_TRUE(put_manifest(client, "g1-0123456789ab", large.dump()));
  ASSERT_TRUE(put_manifest(client, "v1", large.dump()));
  EXPECT_EQ(listed(), sorted(archive.blobs()));
  EXPECT_TRUE(kept().empty());
  EXPECT_TRUE(upkeep_.archives());
}

TEST_F(TagsOfAnyKind, AListThatIsNoneIsAnError) {
  ASSERT_TRUE(upkeep_.prepare({"cluster", "ml", "uid"}, false));
  saved(1);
  for (const std::string text : {"", "[]", "{}", R"({"tags":7})", R"({"tags":[7]})", "<html>",
                                 R"({"tags":null})", R"({"tags":["v1"]})"}) {
    registry_.refuse([=](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.target.find("/tags/list") == std::string::npos) return std::nullopt;
      return FakeRegistry::Answer{.body = text};
    });
    EXPECT_FALSE(upkeep_.list()) << text;
    EXPECT_FALSE(upkeep_.archives()) << text;
  }
  registry_.refuse([](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (call.target.find("/tags/list") == std::string::npos) return std::nullopt;
    return FakeRegistry::Answer{.status = 404};
  });
  EXPECT_FALSE(upkeep_.list()) << "the owner's tag is there";
}

TEST_F(TagsOfAnyKind, WhatCannotBeReadIsAProblemOfTheArchivesAndHidesNoOther) {
  const auto first = saved(1), second = saved(5);
  answer_for(tag_of(first.manifest), 500);
  const auto archives = upkeep_.archives();
  ASSERT_TRUE(archives);
  EXPECT_EQ(archives->problems.size(), 1U);
  answer_for("g", 503);
  EXPECT_FALSE(upkeep_.archives());
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
  EXPECT_EQ(counts->freed_bytes, first.compressed_bytes);
  EXPECT_EQ(listed(), sorted(second.blobs()));
  EXPECT_EQ(registry_.tags().size(), 1U);
}

// The layers of a parent are those of its child too.
TEST_F(RegistryUpkeepTest, WhatARemainingManifestNamesIsNotFreed) {
  const auto parent = saved(1);
  const std::string manifest = registry_.content(parent.manifest);
  nlohmann::json child = nlohmann::json::parse(manifest);
  child["annotations"][archive::kAnnotationGeneration] = "2";
  RegistryClient client(options());
  ASSERT_TRUE(put_manifest(client, tag_of(2, digest_of(child.dump())), child.dump()));
  const auto counts = upkeep_.remove({parent.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 1U);
  EXPECT_EQ(counts->freed_bytes, parent.manifest_bytes);
}

// As cosign 3 leaves it where a registry has no referrers, and as it did before.
class AttachedToAnArchive : public RegistryUpkeepTest {
 protected:
  using Json = nlohmann::json;

  // A manifest under that tag; its digest.
  std::string push(const std::string& tag, const Json& manifest) {
    EXPECT_TRUE(put_manifest(client_, tag, manifest.dump()));
    return "sha256:" + sha256_hex(manifest.dump());
  }
  static std::string tag_for(const std::string& digest) { return "sha256-" + digest.substr(7); }
  static Json signature_of(const std::string& digest) {
    return {{"schemaVersion", 2},
            {"artifactType", "application/vnd.dev.sigstore.bundle.v0.3+json"},
            {"layers", Json::array()},
            {"subject", {{"digest", digest}}}};
  }
  static Json index_of(const std::vector<std::string>& digests) {
    Json index = {{"schemaVersion", 2}, {"manifests", Json::array()}};
    for (const auto& digest : digests) index["manifests"].push_back({{"digest", digest}});
    return index;
  }
  [[nodiscard]] bool has(const std::string& digest) const {
    return registry_.manifests().contains(digest);
  }

  RegistryClient client_{options()};
};

TEST_F(AttachedToAnArchive, GoesWithItAndOtherwiseStays) {
  const auto first = saved(1), second = saved(5);
  std::vector<std::string> gone, stays;
  for (const auto& archive : {first, second}) {
    auto& all = archive.manifest == first.manifest ? gone : stays;
    all.push_back(push("one", signature_of(archive.manifest)));
    all.push_back(push(tag_for(archive.manifest), index_of({all.back()})));
    for (const char* kind : {".sig", ".att", ".sbom"}) {
      all.push_back(
          push(tag_for(archive.manifest) + kind,
               {{"schemaVersion", 2}, {"layers", Json::array()}, {"of", kind + archive.manifest}}));
    }
  }
  ASSERT_TRUE(upkeep_.remove({first.manifest}));
  for (const auto& digest : gone) EXPECT_FALSE(has(digest));
  for (const auto& digest : stays) EXPECT_TRUE(has(digest));
  EXPECT_TRUE(load(store_, second.manifest));
}

TEST_F(AttachedToAnArchive, NothingElseGoesWhateverSomebodyNamesIt) {
  ASSERT_TRUE(upkeep_.prepare({"cluster", "ml", "uid"}, false));
  const auto first = saved(1), second = saved(5);
  const std::string marker = registry_.tags().at("compilecache-owner");
  const std::string others = push("v1", signature_of(second.manifest));
  push(tag_for(first.manifest), index_of({second.manifest, marker, others}));
  registry_.tag(tag_for(first.manifest) + ".sig", second.manifest);
  registry_.tag(tag_for(first.manifest) + ".att", marker);
  ASSERT_TRUE(upkeep_.remove({first.manifest}));
  EXPECT_FALSE(has(first.manifest));
  EXPECT_TRUE(has(marker));
  EXPECT_TRUE(has(others));
  EXPECT_TRUE(load(store_, second.manifest));
}

TEST_F(AttachedToAnArchive, WhatCannotBeReadHarmsNothing) {
  const auto archive = saved(1);
  push(tag_for(archive.manifest), {{"manifests", {1, {{"digest", "no digest"}}, Json::array()}}});
  registry_.put("sha256:" + sha256_hex("no json"), "no json");
  registry_.tag(tag_for(archive.manifest) + ".sig", "sha256:" + sha256_hex("no json"));
  const auto counts = upkeep_.remove({archive.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 1U);
  EXPECT_TRUE(counts->failures.empty());
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

// As Harbor does for a tag that is immutable.
TEST_F(RegistryUpkeepTest, OneArchiveThatMayNotBeDeletedKeepsNoOther) {
  const auto first = saved(1), second = saved(5), third = saved(9);
  registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (call.method != "DELETE" || call.target.ends_with(third.manifest)) return std::nullopt;
    return FakeRegistry::Answer{.status = 412};
  });
  const auto counts = upkeep_.remove({first.manifest, second.manifest, third.manifest});
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->removed, 1U);
  EXPECT_FALSE(registry_.manifests().contains(third.manifest));
  ASSERT_EQ(counts->failures.size(), 1U);
  EXPECT_THAT(counts->failures[0], ::testing::HasSubstr("does not let 2 archives be deleted"));
}

// A redirect that is not followed has done nothing.
TEST_F(RegistryUpkeepTest, OnlyAnAnswerOfSuccessIsOne) {
  const auto archive = saved(1);
  for (const int status : {301, 302, 303, 304, 307}) {
    registry_.refuse([=](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.method == "GET") return std::nullopt;
      return FakeRegistry::Answer{.status = status};
    });
    const auto counts = upkeep_.remove({archive.manifest});
    ASSERT_TRUE(counts);
    EXPECT_EQ(counts->removed, 0U) << status;
    EXPECT_EQ(counts->failures.size(), 1U) << status;
    EXPECT_FALSE(upkeep_.prepare({"cluster", "ml", "uid"}, false)) << status;
    EXPECT_FALSE(save(store_, some_tree(5))) << status;
    EXPECT_FALSE(upkeep_.probe()) << status;
  }
}

TEST_F(RegistryUpkeepTest, AMarkerWithoutAnOwnerIsNone) {
  for (const std::string annotations : {"", R"(,"annotations":7)", R"(,"annotations":{})"}) {
    registry_.refuse([=](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (!call.target.ends_with("/manifests/compilecache-owner")) return std::nullopt;
      return FakeRegistry::Answer{
          .body = R"({"artifactType":"application/vnd.compilecache.owner.v1")" + annotations + "}"};
    });
    EXPECT_EQ(upkeep_.owner().error().code, ErrorCode::kCorrupt) << annotations;
  }
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
