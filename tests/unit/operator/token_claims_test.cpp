#include "operator/registry/token_claims.hpp"

#include <gtest/gtest.h>

#include "operator/registry/es256.hpp"
#include "operator/registry/token_minter.hpp"
#include "tests/unit/operator/read_token.hpp"

// Tokens as the registry reads them.

namespace compilecache::controller {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using test::read_token;

constexpr WallTime kMinted{seconds(1'800'000'000)};

TEST(TokenClaims, AreTheseBytes) {
  const TokenClaims claims{.subject = "ml/web-1",
                           .id = "7f",
                           .issued = kMinted + std::chrono::milliseconds(999),
                           .access = {{"ml/transformer", {"pull", "push"}}}};
  EXPECT_EQ(token_header("\x01\xfe\xff"), R"({"typ":"JWT","alg":"ES256","x5c":["Af7/"]})");
  EXPECT_EQ(
      token_payload(claims),
      R"({"iss":"compilecache","aud":"registry","sub":"ml/web-1","jti":"7f","iat":1800000000,)"
      R"("nbf":1799996400,"exp":1800000300,"access":[{"type":"repository","name":"ml/transformer",)"
      R"("actions":["pull","push"]}]})");
  EXPECT_EQ(token_payload({.issued = kMinted}),
            R"({"iss":"compilecache","aud":"registry","sub":"","jti":"","iat":1800000000,)"
            R"("nbf":1799996400,"exp":1800000300,"access":[]})");
}

TEST(TokenClaims, Base64UrlHasNoPaddingAndNoSlash) {
  EXPECT_EQ(base64url(""), "");
  EXPECT_EQ(base64url("\xfb"), "-w");
  EXPECT_EQ(base64url("\xff\xff"), "__8");
  EXPECT_EQ(base64url("abc"), "YWJj");
}

TEST(TokenClaims, TheSignatureIsTheLeafs) {
  const auto authority = make_token_authority({}, kMinted);
  ASSERT_TRUE(authority);
  const auto leaf = make_token_leaf(*authority, {}, kMinted);
  ASSERT_TRUE(leaf);
  // r and s are shorter than 32 bytes once in 128 times.
  for (int i = 0; i < 300; ++i) {
    const TokenClaims claims{.subject = std::to_string(i), .issued = kMinted};
    const auto token = sign_token(claims, *leaf);
    ASSERT_TRUE(token) << token.error().message;
    const auto read = read_token(*token, authority->bundle(), kMinted);
    ASSERT_TRUE(read.signed_by_leaf) << *token;
    ASSERT_EQ(read.payload_text, token_payload(claims));
    ASSERT_TRUE(read.leaf_is_trusted);
  }
}

TEST(TokenClaims, AKeyThatIsNoneSignsNothing) {
  const auto authority = make_token_authority({}, kMinted);
  const auto leaf = make_token_leaf(*authority, {}, kMinted);
  for (const KeyPair& wrong :
       {KeyPair{}, KeyPair{leaf->certificate, ""}, KeyPair{leaf->certificate, leaf->certificate},
        KeyPair{leaf->key, leaf->key}}) {
    const auto token = sign_token({.issued = kMinted}, wrong);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, ErrorCode::kInvalid);
  }
}

class Minter : public ::testing::Test {
 protected:
  FakeClock clock{kMinted};
  TokenMinter minter{clock, seeded_random(7)};
  TokenAuthority authority = make_token_authority({}, kMinted).value();

  test::ReadToken minted(const std::string& bundle) const {
    const auto token = minter.mint("ml/web-1", {{"ml/transformer", {"pull"}}});
    EXPECT_TRUE(token);
    return read_token(token->token, bundle, clock.wall());
  }
};

TEST_F(Minter, MintsNothingBeforeItsAuthorityIsThere) {
  const auto token = minter.mint("ml/web-1", {});
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::kUnavailable);
}

TEST_F(Minter, EachTokenIsAnother) {
  ASSERT_TRUE(minter.use(authority));
  const auto first = minted(authority.bundle());
  EXPECT_TRUE(first.signed_by_leaf && first.leaf_is_trusted);
  EXPECT_EQ(first.payload.at("sub"), "ml/web-1");
  EXPECT_EQ(first.payload.at("iat"), 1'800'000'000);
  EXPECT_NE(first.payload.at("jti"), minted(authority.bundle()).payload.at("jti"));
}

TEST_F(Minter, TheLeafIsRenewedLongBeforeItEnds) {
  ASSERT_TRUE(minter.use(authority));
  const auto first = minted(authority.bundle()).header;
  clock.advance(hours(11));
  ASSERT_TRUE(minter.use(authority));
  EXPECT_EQ(minted(authority.bundle()).header, first);
  clock.advance(hours(2));
  ASSERT_TRUE(minter.use(authority));
  EXPECT_NE(minted(authority.bundle()).header, first);
  clock.advance(hours(23));
  EXPECT_TRUE(minted(authority.bundle()).leaf_is_trusted);
}

TEST_F(Minter, AnotherAuthorityIsUsedAtOnce) {
  ASSERT_TRUE(minter.use(authority));
  const TokenAuthority other = make_token_authority({}, kMinted).value();
  ASSERT_TRUE(minter.use(other));
  EXPECT_TRUE(minted(other.bundle()).leaf_is_trusted);
  EXPECT_FALSE(minted(authority.bundle()).leaf_is_trusted);
}

}  // namespace
}  // namespace compilecache::controller
