#include "operator/registry/token_authority.hpp"

#include <gtest/gtest.h>

#include "operator/certificates/x509.hpp"
#include "operator/registry/token_claims.hpp"
#include "tests/unit/operator/read_token.hpp"

// The authority of the registry's tokens, which signs nothing else.

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr WallTime kMade{seconds(1'800'000'000)};
constexpr hours kLife(24 * 3650);
const std::string kServer = "compilecache-agent-api.system.svc";

bool accepted(const KeyPair& leaf, const std::string& bundle, WallTime now) {
  const auto token = sign_token({.issued = now}, leaf);
  if (!token) return false;
  const auto read = test::read_token(*token, bundle, now);
  return read.signed_by_leaf && read.leaf_is_trusted;
}

TEST(TokenAuthority, ALeafOfOurServersIsNoSigner) {
  const auto tokens = make_token_authority({}, kMade);
  const auto servers = make_certificates({kServer}, {}, kMade);
  ASSERT_TRUE(tokens && servers);
  EXPECT_TRUE(accepted(*make_token_leaf(*tokens, {}, kMade), tokens->bundle(), kMade));
  EXPECT_FALSE(accepted(servers->leaf, tokens->bundle(), kMade));
  EXPECT_FALSE(accepted(*make_token_leaf(*tokens, {}, kMade), servers->bundle(), kMade));
}

TEST(TokenAuthority, WhatItSignsServesNothing) {
  const auto authority = make_token_authority({}, kMade);
  const auto leaf = make_token_leaf(*authority, {}, kMade);
  const auto servers = make_certificates({kServer}, {}, kMade);
  EXPECT_TRUE(test::serves(servers->leaf.certificate, servers->bundle(), kServer, kMade));
  EXPECT_FALSE(test::serves(leaf->certificate, authority->bundle(), kServer, kMade));
  EXPECT_FALSE(test::serves(leaf->certificate, authority->bundle(), "", kMade));
  EXPECT_TRUE(read_certificate(leaf->certificate)->dns_names.empty());
  // Nor an authority below it.
  const auto below = issue_certificate({.common_name = "x",
                                        .not_before = kMade,
                                        .not_after = kMade + hours(1),
                                        .signs_tokens = true},
                                       *leaf);
  ASSERT_TRUE(below);
  EXPECT_FALSE(accepted(*below, authority->bundle() + leaf->certificate, kMade));
}

TEST(TokenAuthority, ALeafLivesForADay) {
  const auto authority = make_token_authority({}, kMade);
  const auto leaf = make_token_leaf(*authority, {}, kMade);
  EXPECT_TRUE(accepted(*leaf, authority->bundle(), kMade - minutes(30)));
  EXPECT_TRUE(accepted(*leaf, authority->bundle(), kMade + hours(23)));
  EXPECT_FALSE(accepted(*leaf, authority->bundle(), kMade + hours(25)));
}

// The registry takes what it was started with, at every moment of a change.
TEST(TokenAuthority, IsReplacedWithoutARefusedToken) {
  TokenAuthority authority = make_token_authority({}, kMade).value();
  WallTime now = kMade;
  std::string registry = authority.bundle();
  const auto due = [&] {
    return next_authority_step(authority, {}, registry == authority.bundle(), now);
  };
  const auto step = [&] {
    const auto next = rotate_authority(authority, *due(), {}, now);
    ASSERT_TRUE(next);
    authority = *next;
  };
  EXPECT_EQ(due(), std::nullopt);
  now += kLife - hours(24 * 91);
  EXPECT_EQ(due(), std::nullopt);
  now += hours(24 * 2);
  EXPECT_EQ(due(), AuthorityStep::kAddNext);
  const KeyPair old_leaf = *make_token_leaf(authority, {}, now);
  step();
  EXPECT_EQ(due(), std::nullopt) << "the registry does not know it yet";
  EXPECT_TRUE(accepted(*make_token_leaf(authority, {}, now), registry, now));
  registry = authority.bundle();
  EXPECT_EQ(due(), AuthorityStep::kSwitch);
  step();
  EXPECT_EQ(authority.bundle(), registry) << "no reason to restart it";
  EXPECT_TRUE(accepted(*make_token_leaf(authority, {}, now), registry, now));
  EXPECT_TRUE(accepted(old_leaf, registry, now)) << "of a replica that has not seen it yet";
  EXPECT_EQ(due(), std::nullopt);
  now += hours(1);
  EXPECT_EQ(due(), AuthorityStep::kDropPrevious);
  step();
  EXPECT_FALSE(accepted(old_leaf, authority.bundle(), now));
  EXPECT_EQ(due(), std::nullopt);
}

TEST(TokenAuthority, SurvivesItsSecretAndNothingElse) {
  TokenAuthority authority = make_token_authority({}, kMade).value();
  authority = rotate_authority(authority, AuthorityStep::kAddNext, {}, kMade).value();
  auto entries = authority_entries(authority);
  const TokenAuthority read = from_authority_entries(entries);
  EXPECT_EQ(read.bundle(), authority.bundle());
  EXPECT_EQ(read.ca, authority.ca);
  EXPECT_EQ(read.next_ca, authority.next_ca);
  EXPECT_EQ(read.changed, kMade);
  EXPECT_EQ(next_authority_step(read, {}, true, kMade), std::nullopt);
  entries["ca.key"] = authority.next_ca.key;
  EXPECT_EQ(next_authority_step(from_authority_entries(entries), {}, true, kMade),
            AuthorityStep::kStartAnew);
  EXPECT_EQ(next_authority_step({}, {}, true, kMade), AuthorityStep::kStartAnew);
  EXPECT_EQ(next_authority_step(authority, {}, true, kMade + kLife), AuthorityStep::kStartAnew);
}

TEST(TokenAuthority, OneOfNoUseSignsNothing) {
  const TokenAuthority good = make_token_authority({}, kMade).value();
  EXPECT_TRUE(is_usable(good, kMade));
  TokenAuthority keyless = good;
  keyless.ca.key = make_token_authority({}, kMade)->ca.key;
  TokenAuthority broken = good;
  broken.ca.certificate += "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n";
  for (const TokenAuthority& one : {TokenAuthority(), keyless, broken}) {
    EXPECT_FALSE(is_usable(one, kMade));
    EXPECT_EQ(make_token_leaf(one, {}, kMade).error().code, ErrorCode::kInvalid);
  }
  EXPECT_EQ(make_token_leaf(good, {}, kMade + kLife).error().code, ErrorCode::kInvalid);
}

TEST(TokenAuthority, StartedAnewItKeepsTheCertificateThatCanBeRead) {
  const TokenAuthority good = make_token_authority({}, kMade).value();
  const KeyPair leaf = make_token_leaf(good, {}, kMade).value();
  const auto anew = [](const TokenAuthority& authority, WallTime now) {
    return rotate_authority(authority, AuthorityStep::kStartAnew, {}, now).value();
  };
  TokenAuthority lost = good;
  lost.ca.key = "garbage";
  EXPECT_TRUE(accepted(leaf, anew(lost, kMade).bundle(), kMade));
  EXPECT_EQ(anew(good, kMade + kLife).previous_ca, "") << "it has ended";
  lost.ca.certificate = "garbage";
  EXPECT_EQ(anew(lost, kMade).previous_ca, "");
}

TEST(TokenAuthority, OtherCertificatesThatCannotBeReadAreNotTaken) {
  const TokenAuthority good = make_token_authority({}, kMade).value();
  auto entries = authority_entries(good);
  entries["next-ca.crt"] = entries["next-ca.key"] = entries["previous-ca.crt"] = "garbage";
  EXPECT_EQ(from_authority_entries(entries).bundle(), good.bundle());
}

}  // namespace
}  // namespace compilecache::controller
