#include "operator/token_auth.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

json good() {
  return json::parse(R"({"status": {"authenticated": true,
    "audiences": ["compilecache.dev/operator"],
    "user": {"username": "system:serviceaccount:ml:trainer",
      "extra": {"authentication.kubernetes.io/pod-name": ["web-1"],
                "authentication.kubernetes.io/pod-uid": ["u1"],
                "authentication.kubernetes.io/node-name": ["n1"]}}}})");
}

std::string refusal(const json& answer) {
  const auto identity = parse_token_review(answer);
  EXPECT_FALSE(identity);
  EXPECT_EQ(identity.error().code, ErrorCode::kUnauthorized);
  return identity.error().message;
}

TEST(TokenAuth, TakesThePodFromTheClaims) {
  const auto identity = parse_token_review(good());
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->ns, "ml");
  EXPECT_EQ(identity->service_account, "trainer");
  EXPECT_EQ(identity->pod, "web-1");
  EXPECT_EQ(identity->pod_uid, "u1");
  EXPECT_EQ(identity->node, "n1");
}

TEST(TokenAuth, AsksForOurAudience) {
  EXPECT_EQ(token_review("t")["spec"]["audiences"], json({"compilecache.dev/operator"}));
  EXPECT_EQ(token_review("t")["spec"]["token"], "t");
}

TEST(TokenAuth, RefusesAllElse) {
  json answer = good();
  answer["status"] = {{"authenticated", false}, {"error", "token has expired"}};
  EXPECT_NE(refusal(answer).find("token has expired"), std::string::npos);
  answer = good();
  answer["status"]["audiences"] = {"https://kubernetes.default.svc"};
  EXPECT_NE(refusal(answer).find("another audience"), std::string::npos);
  answer = good();
  answer["status"]["user"]["extra"] = json::object();
  EXPECT_NE(refusal(answer).find("bound to no pod"), std::string::npos);
  answer = good();
  answer["status"]["user"]["username"] = "system:admin";
  EXPECT_NE(refusal(answer).find("no service account"), std::string::npos);
  refusal(json::object());
}

TEST(TokenAuth, SurvivesAnOddAnswer) {
  EXPECT_FALSE(parse_token_review(json::parse(R"({"status": {"authenticated": "yes"}})")));
  EXPECT_FALSE(parse_token_review(json::parse(R"([1])")));
}

TEST(TokenAuth, BelievesAnAnswerForAWhile) {
  FakeClock clock;
  int reviews = 0;
  json answer = good();
  TokenAuth auth([&](const json&) -> Result<json> { return ++reviews, answer; }, seconds(60),
                 clock);
  EXPECT_TRUE(auth.identify("t"));
  EXPECT_TRUE(auth.identify("t"));
  EXPECT_EQ(reviews, 1);
  EXPECT_TRUE(auth.identify("other"));
  EXPECT_EQ(reviews, 2);
  clock.advance(seconds(61));
  answer["status"]["authenticated"] = false;
  EXPECT_FALSE(auth.identify("t"));
  EXPECT_FALSE(auth.identify("t"));
  EXPECT_EQ(reviews, 3);
  answer = good();
  clock.advance(seconds(7));
  EXPECT_TRUE(auth.identify("t"));
}

TEST(TokenAuth, TheApiServersTroubleIsNotTheCallersFault) {
  FakeClock clock;
  TokenAuth auth([](const json&) -> Result<json> { return fail(ErrorCode::kTimeout, "slow"); },
                 seconds(60), clock);
  EXPECT_EQ(auth.identify("t").error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(auth.identify("").error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(auth.identify(std::string(100'000, 'x')).error().code, ErrorCode::kUnauthorized);
}

}  // namespace
}  // namespace compilecache::controller
