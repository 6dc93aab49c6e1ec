#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "base/p256.hpp"
#include "store/trust/trusted_keys.hpp"
#include "tests/unit/store/trust_keys.hpp"

// Whose signatures vouch for an archive, and which do not count.

namespace compilecache::store::test {
namespace {

using Json = nlohmann::json;

const std::string kDigest = "sha256:" + std::string(64, 'a');
const std::string kOther = "sha256:" + std::string(64, 'b');

Signature simple(const std::string& digest, const KeyPair& pair = ours()) {
  const std::string payload = simple_payload("registry.example/ml/llama", digest);
  const auto read = simple_signature(payload, base64_encode(*sign_p256(pair.key, payload)));
  EXPECT_TRUE(read) << read.error().message;
  return *read;
}

Json statement_of(const std::string& digest) {
  return {{"_type", "https://in-toto.io/Statement/v1"},
          {"subject", {{{"digest", {{"sha256", digest.substr(7)}}}}}},
          {"predicateType", "https://sigstore.dev/cosign/sign/v1"},
          {"predicate", Json::object()}};
}
Json bundle_of(const Json& statement, const KeyPair& pair = ours()) {
  const std::string type = "application/vnd.in-toto+json", body = statement.dump();
  const std::string signed_text = "DSSEv1 " + std::to_string(type.size()) + " " + type + " " +
                                  std::to_string(body.size()) + " " + body;
  return {{"mediaType", "application/vnd.dev.sigstore.bundle.v0.3+json"},
          {"verificationMaterial", {{"publicKey", {{"hint", "x"}}}}},
          {"dsseEnvelope",
           {{"payload", base64_encode(body)},
            {"payloadType", type},
            {"signatures", {{{"sig", base64_encode(*sign_p256(pair.key, signed_text))}}}}}}};
}

bool is_vouched_for(const std::string& digest, const std::vector<Signature>& signatures,
                    const std::vector<std::string>& keys = {ours().public_key}) {
  const auto trusted = TrustedKeys::parse(keys);
  EXPECT_TRUE(trusted) << trusted.error().message;
  return trusted && trusted->vouch_for(digest, signatures);
}

TEST(Trust, ASignatureOfOneOfTheKeysVouchesForItsManifestAlone) {
  for (const Signature& good :
       {simple(kDigest), *bundle_signature(bundle_of(statement_of(kDigest)).dump())}) {
    EXPECT_EQ(good.subject, kDigest);
    EXPECT_TRUE(is_vouched_for(kDigest, {good}));
    EXPECT_TRUE(is_vouched_for(kDigest, {simple(kOther), good}));
    EXPECT_TRUE(is_vouched_for(kDigest, {good}, {anothers().public_key, ours().public_key}));
    EXPECT_FALSE(is_vouched_for(kOther, {good})) << "of another digest";
    EXPECT_FALSE(is_vouched_for(kDigest, {good}, {anothers().public_key})) << "of a wrong key";
    EXPECT_FALSE(is_vouched_for(kDigest, {good}, {}));
  }
  EXPECT_FALSE(is_vouched_for(kDigest, {})) << "nobody has signed it";
  EXPECT_FALSE(is_vouched_for(kDigest, {simple(kDigest, anothers())}));
  EXPECT_FALSE(is_vouched_for(
      kDigest, {*bundle_signature(bundle_of(statement_of(kDigest), anothers()).dump())}));
}

TEST(Trust, WhatWasChangedAfterwardsVouchesForNothing) {
  Signature moved = simple(kDigest);
  moved.subject = kOther;
  EXPECT_TRUE(moved.message.find(kDigest) != std::string::npos);
  EXPECT_FALSE(is_vouched_for(kDigest, {moved}));
  Signature changed = simple(kDigest);
  changed.message += " ";
  EXPECT_FALSE(is_vouched_for(kDigest, {changed}));
  Json bundle = bundle_of(statement_of(kDigest));
  bundle["dsseEnvelope"]["payload"] = base64_encode(statement_of(kOther).dump());
  const auto other = bundle_signature(bundle.dump());
  ASSERT_TRUE(other);
  EXPECT_FALSE(is_vouched_for(kOther, {*other}));
  for (const std::string nothing : {"", "x", "\x30\x00"}) {
    Signature broken = simple(kDigest);
    broken.signature = nothing;
    EXPECT_FALSE(is_vouched_for(kDigest, {broken}));
  }
}

TEST(Trust, WhatIsNoSignatureOfCosignsIsRefused) {
  const std::string payload = simple_payload("r", kDigest), good = base64_encode("x");
  EXPECT_FALSE(simple_signature(payload, ""));
  EXPECT_FALSE(simple_signature(payload, "no base64 !"));
  EXPECT_FALSE(simple_signature("", good));
  EXPECT_FALSE(simple_signature("[]", good));
  EXPECT_FALSE(simple_signature(simple_payload("r", "sha256:short"), good));
  EXPECT_FALSE(simple_signature(R"({"critical": {"image": 1, "type": 2}})", good));
  EXPECT_FALSE(simple_signature(payload + std::string(kMostSignatureBytes, ' '), good));
  Json of_another_type = Json::parse(payload);
  of_another_type["critical"]["type"] = "an opinion";
  EXPECT_FALSE(simple_signature(of_another_type.dump(), good));

  const Json bundle = bundle_of(statement_of(kDigest));
  EXPECT_TRUE(bundle_signature(bundle.dump()));
  EXPECT_FALSE(bundle_signature(bundle.dump() + std::string(kMostSignatureBytes, ' ')));
  for (const char* part : {"/dsseEnvelope", "/dsseEnvelope/payload", "/dsseEnvelope/payloadType",
                           "/dsseEnvelope/signatures", "/dsseEnvelope/signatures/0/sig"}) {
    for (const Json& wrong : {Json(), Json(1), Json("?"), Json::array(), Json::object()}) {
      Json broken = bundle;
      broken[Json::json_pointer(part)] = wrong;
      EXPECT_FALSE(bundle_signature(broken.dump())) << part << " " << wrong;
    }
  }
}

// Who signs an SBOM of an archive says nothing of what is in it.
TEST(Trust, AnotherStatementOfTheSameKeyVouchesForNothing) {
  Json sbom = statement_of(kDigest), two = statement_of(kDigest), none = statement_of(kDigest);
  sbom["predicateType"] = "https://spdx.dev/Document";
  two["subject"].push_back(statement_of(kOther)["subject"][0]);
  none["subject"] = Json::array();
  for (const Json& statement : {sbom, two, none, Json("text"), Json::array()}) {
    EXPECT_FALSE(bundle_signature(bundle_of(statement).dump())) << statement;
  }
}

TEST(Trust, AKeyThatIsNoneIsNamed) {
  const auto read = TrustedKeys::parse({ours().public_key, "no key"});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalid);
  EXPECT_NE(read.error().message.find("spec.trust.publicKeys[1]"), std::string::npos)
      << read.error().message;
  EXPECT_FALSE(TrustedKeys::parse({ours().key})) << "a private key";
  EXPECT_FALSE(sign_p256(ours().public_key, "x"));
  EXPECT_FALSE(sign_p256("", "x"));
}

}  // namespace
}  // namespace compilecache::store::test
