#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/p256.hpp"
#include "store/access/copy.hpp"
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
    return TrustedKeys::parse({pair.public_key})->vouch_for(digest, found.all);
  }
  [[nodiscard]] std::string tag(const std::string& digest) const {
    return "sha256-" + digest.substr(7) + ".sig";
  }

  // As cosign 3 makes it.
  static Signature bundled(const std::string& digest, const KeyPair& pair = ours()) {
    const Json subject = {{"digest", {{"sha256", digest.substr(7)}}}};
    const Json statement = {{"predicateType", kSignPredicate}, {"subject", Json::array({subject})}};
    const auto read = [&](const std::string& signature) {
      const Json envelope = {{"payloadType", "application/vnd.in-toto+json"},
                             {"payload", base64_encode(statement.dump())},
                             {"signatures", Json::array({{{"sig", base64_encode(signature)}}})}};
      const auto bundle = bundle_signature(Json{{"dsseEnvelope", envelope}}.dump());
      EXPECT_TRUE(bundle) << bundle.error().message;
      return *bundle;
    };
    return read(*sign_p256(pair.key, read("none yet").message));
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

TEST_F(RegistrySignaturesTest, BytesThatNoDigestPromisesAreNone) {
  const std::string digest = saved(1);
  const Signature anothers_word = bundled(digest, anothers());
  ASSERT_TRUE(signatures_.add(anothers_word));
  EXPECT_TRUE(is_vouched_for(digest, anothers()));
  EXPECT_FALSE(is_vouched_for(digest));
  registry_.put("sha256:" + sha256_hex(anothers_word.bundle), bundled(digest).bundle);
  EXPECT_FALSE(is_vouched_for(digest));
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

// Another repository, with a copy of an archive.
class CopiedSignaturesTest : public RegistrySignaturesTest {
 protected:
  static RegistryOptions elsewhere(RegistryOptions options, const FakeRegistry& registry) {
    options.host = registry.host();
    return options;
  }
  size_t copy(const std::string& digest) {
    const auto copied = copy_signatures(store_, there_, digest);
    EXPECT_TRUE(copied) << copied.error().message;
    return copied.value_or(99);
  }
  std::string copied_archive() {
    const std::string digest = saved(1);
    EXPECT_TRUE(copy_archive(store_, there_, digest));
    return digest;
  }
  std::vector<Signature> there(const std::string& digest) {
    const auto found = there_.signatures()->of(digest);
    EXPECT_FALSE(found.unread) << found.unread->message;
    return found.all;
  }
  FakeRegistry other_;
  RegistryStore there_{elsewhere(options(), other_)};
};

TEST_F(CopiedSignaturesTest, BesideThoseThatAreThereAndOnceEach) {
  const std::string digest = copied_archive();
  EXPECT_EQ(copy(digest), 0U);
  ASSERT_TRUE(sign(digest));
  const std::string payload = simple_payload("elsewhere", digest);
  const Signature others{payload, *sign_p256(anothers().key, payload), digest};
  ASSERT_TRUE(there_.signatures()->add(others));
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  ASSERT_TRUE(signatures_.add(bundled(digest, anothers())));
  EXPECT_EQ(copy(digest), 3U);
  EXPECT_EQ(copy(digest), 0U);
  EXPECT_EQ(there(digest).size(), 4U);
  for (const KeyPair& pair : {ours(), anothers()})
    EXPECT_TRUE(TrustedKeys::parse({pair.public_key})->vouch_for(digest, there(digest)));
  ASSERT_TRUE(there_.upkeep()->remove({digest}));
  EXPECT_TRUE(other_.tags().empty()) << "all go with the archive";
  EXPECT_TRUE(there(digest).empty());
}

TEST_F(CopiedSignaturesTest, AsTheyWere) {
  const std::string digest = copied_archive();
  const std::string payload = simple_payload("r", digest);
  const Signature certified{
      payload, "a signature", digest, {}, {{"dev.sigstore.cosign/certificate", "PEM"}}};
  ASSERT_TRUE(signatures_.add(certified));
  const Signature bundle = bundled(digest);
  ASSERT_TRUE(signatures_.add(bundle));
  ASSERT_EQ(copy(digest), 2U);
  for (const Signature& one : there(digest)) {
    EXPECT_EQ(one.bundle, one.message == payload ? "" : bundle.bundle);
    EXPECT_EQ(one.annotations,
              one.message == payload ? certified.annotations : decltype(one.annotations)());
  }
}

TEST_F(CopiedSignaturesTest, NoIndexWhereTheRegistryTellsWhatRefers) {
  const std::string digest = copied_archive();
  other_.set([](auto& manners) { manners.referrers = true; });
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  ASSERT_EQ(copy(digest), 1U);
  EXPECT_EQ(there(digest).size(), 1U);
  EXPECT_EQ(other_.tags().size(), 1U) << "the archive's";
}

TEST_F(CopiedSignaturesTest, OfNoOtherArchive) {
  const std::string digest = copied_archive(), second = saved(5);
  ASSERT_TRUE(sign(second));
  registry_.tag(tag(digest), registry_.tags().at(tag(second)));
  EXPECT_EQ(copy(digest), 0U);
}

TEST_F(RegistrySignaturesTest, ARegistryThatDoesNotAnswerIsNoVerdict) {
  const std::string digest = saved(1);
  registry_.refuse([](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (call.target.find("/manifests/sha256-") == std::string::npos) return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  EXPECT_TRUE(signatures_.of(digest).unread);
  EXPECT_TRUE(signatures_.of(digest).all.empty());
}

class BesideOthers : public RegistrySignaturesTest {
 protected:
  // Attached to the archive; its digest.
  std::string refer(const std::string& digest, const std::string& type,
                    const std::string& padding) {
    RegistryClient client(options());
    const Json manifest = {{"schemaVersion", 2},
                           {"mediaType", "application/vnd.oci.image.manifest.v1+json"},
                           {"artifactType", type},
                           {"layers", Json::array()},
                           {"subject", {{"digest", digest}}},
                           {"padding", padding}};
    const std::string text = manifest.dump(), its_digest = "sha256:" + sha256_hex(text);
    EXPECT_TRUE(put_manifest(client, its_digest, text));
    return its_digest;
  }
  static constexpr char kBill[] = "application/spdx+json";
  static constexpr char kBundle[] = "application/vnd.dev.sigstore.bundle.v0.3+json";
};

// Signed while the registry did not know of referrers, with a bill of materials since.
TEST_F(BesideOthers, ASignatureInTheIndexIsSeenThoughTheRegistryTellsOfReferrers) {
  const std::string digest = saved(1);
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  registry_.refuse(
      [bill = refer(digest, kBill, "")](const auto& call) -> std::optional<FakeRegistry::Answer> {
        if (call.target.find("/referrers/") == std::string::npos) return std::nullopt;
        return FakeRegistry::Answer{.body = Json{{"manifests", {{{"digest", bill}}}}}.dump()};
      });
  EXPECT_TRUE(is_vouched_for(digest));
}

TEST_F(BesideOthers, ASignatureIsSeenBehindAnyOthers) {
  const std::string digest = saved(1);
  registry_.set([](auto& manners) { manners.referrers = true; });
  for (int i = 0; i < 200; ++i) refer(digest, i < 100 ? kBundle : kBill, std::to_string(i));
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  EXPECT_TRUE(is_vouched_for(digest));
  ASSERT_TRUE(sign(digest, anothers()));
  EXPECT_TRUE(is_vouched_for(digest, anothers())) << "of the older form";
}

TEST_F(BesideOthers, OneThatCannotBeReadHidesNoSignature) {
  const std::string digest = saved(1);
  registry_.set([](auto& manners) { manners.referrers = true; });
  const std::string unreadable = refer(digest, kBundle, "");
  refer(digest, kBill, std::string(5U << 20, 'x'));
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
    if (!call.target.ends_with(unreadable)) return std::nullopt;
    return FakeRegistry::Answer{.status = 500};
  });
  EXPECT_TRUE(is_vouched_for(digest));
  EXPECT_TRUE(signatures_.of(digest).unread) << "there may be another";
}

// It is another client's list, which we do not replace.
TEST_F(BesideOthers, AnIndexOfVeryManyIsAddedTo) {
  const std::string digest = saved(1);
  RegistryClient client(options());
  Json index = {{"schemaVersion", 2},
                {"mediaType", "application/vnd.oci.image.index.v1+json"},
                {"manifests", Json::array()}};
  for (int i = 0; i < 3000; ++i)
    index["manifests"].push_back(
        {{"digest", "sha256:" + sha256_hex(std::to_string(i))}, {"size", i}, {"x", {1, 2}}});
  const std::string name = "sha256-" + digest.substr(7);
  ASSERT_TRUE(put_index(client, name, index.dump()));
  ASSERT_TRUE(signatures_.add(bundled(digest)));
  const Json now = Json::parse(*get_manifest(client, name));
  EXPECT_EQ(now["manifests"].size(), 3001U);
  EXPECT_TRUE(is_vouched_for(digest)) << "first of all, by what is said of it";
}

}  // namespace
}  // namespace compilecache::store::test
