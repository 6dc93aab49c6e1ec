#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/p256.hpp"
#include "store/registry/manifests.hpp"
#include "store/signatures.hpp"
#include "store/trust/trusted_keys.hpp"
#include "tests/unit/store/registry_fixture.hpp"
#include "tests/unit/store/trust_keys.hpp"

// Signatures beside archives, in a registry that knows no referrers.

namespace compilecache::store::test {
namespace {

class RegistrySignaturesTest : public RegistryTest {
 protected:
  using Json = nlohmann::json;

  std::string saved(uint64_t seed) {
    const auto written = save(store_, some_tree(seed));
    EXPECT_TRUE(written);
    return written->archive.manifest;
  }
  Status sign(const std::string& digest, const KeyPair& pair = ours()) {
    const std::string payload = simple_payload("r", digest);
    return signatures_.add({payload, *sign_p256(pair.key, payload), digest});
  }
  bool is_vouched_for(const std::string& digest, const KeyPair& pair = ours()) {
    const auto found = signatures_.of(digest);
    EXPECT_TRUE(found) << found.error().message;
    return found && TrustedKeys::parse({pair.public_key})->vouch_for(digest, *found);
  }
  [[nodiscard]] std::string tag(const std::string& digest) const {
    return "sha256-" + digest.substr(7) + ".sig";
  }

  RegistryStore store_{options()};
  Signatures& signatures_ = *store_.signatures();
};

TEST_F(RegistrySignaturesTest, WhoeverSignsIsFoundBesideTheOthers) {
  const std::string first = saved(1), second = saved(5);
  EXPECT_FALSE(is_vouched_for(first));
  ASSERT_TRUE(sign(first, anothers()));
  EXPECT_FALSE(is_vouched_for(first));
  ASSERT_TRUE(sign(first));
  EXPECT_TRUE(is_vouched_for(first));
  EXPECT_TRUE(is_vouched_for(first, anothers())) << "it stays";
  EXPECT_FALSE(is_vouched_for(second));
  EXPECT_TRUE(load(store_, first));
  const auto archives = store_.upkeep()->archives();
  ASSERT_TRUE(archives);
  EXPECT_TRUE(store_.upkeep()->remove({first}));
  EXPECT_FALSE(registry_.tags().contains(tag(first)));
}

TEST_F(RegistrySignaturesTest, TheSignatureOfAnotherArchiveIsNone) {
  const std::string first = saved(1), second = saved(5);
  ASSERT_TRUE(sign(first));
  registry_.tag(tag(second), registry_.tags().at(tag(first)));
  EXPECT_FALSE(is_vouched_for(second));
}

TEST_F(RegistrySignaturesTest, WhatIsBrokenIsPassedOver) {
  const std::string digest = saved(1);
  ASSERT_TRUE(sign(digest));
  const Json manifest = Json::parse(*registry_.take(registry_.tags().at(tag(digest))));
  const std::string blob = manifest["layers"][0]["digest"];
  RegistryClient client(options());
  const auto with_layers = [&](const Json& layers) {
    Json changed = manifest;
    changed["layers"] = layers;
    EXPECT_TRUE(put_manifest(client, tag(digest), changed.dump()));
  };
  Json gone = manifest["layers"][0];
  gone["digest"] = "sha256:" + std::string(64, '0');
  registry_.set([](auto& manners) { manners.checks_blobs = false; });
  with_layers({gone, manifest["layers"][0]});
  EXPECT_TRUE(is_vouched_for(digest));
  registry_.put(blob, "other bytes");
  EXPECT_FALSE(is_vouched_for(digest)) << "bytes of another digest";
}

TEST_F(RegistrySignaturesTest, ARegistryThatDoesNotAnswerIsNoVerdict) {
  const std::string digest = saved(1);
  registry_.refuse([](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (call.target.find("/manifests/sha256-") == std::string::npos) return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  EXPECT_FALSE(signatures_.of(digest));
}

}  // namespace
}  // namespace compilecache::store::test
