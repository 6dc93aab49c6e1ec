#include "operator/agents/token_auth.hpp"

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
  answer["status"]["user"]["extra"].erase("authentication.kubernetes.io/pod-uid");
  EXPECT_NE(refusal(answer).find("bound to no pod"), std::string::npos) << "a name is not enough";
  answer = good();
  answer["status"]["user"]["username"] = "system:node:worker-of-some:ml:trainer";
  EXPECT_NE(refusal(answer).find("no service account"), std::string::npos);
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

TEST(TokenAuth, BadTokensOfOneCallerAreLimitedAndNobodyElseNotices) {
  FakeClock clock;
  int reviews = 0;
  const auto review = [&](const json& object) -> Result<json> {
    ++reviews;
    json answer = good();
    const std::string token = object.at("spec").at("token");
    answer["status"]["authenticated"] = token.starts_with("good");
    return answer;
  };
  TokenAuth auth(review, seconds(60), clock);
  Result<TokenIdentity> last = fail(ErrorCode::kInternal, "none yet");
  for (int i = 0; i < 5'000; ++i) last = auth.identify("bad" + std::to_string(i), "10.0.0.7:4711");
  EXPECT_EQ(reviews, 100);
  EXPECT_EQ(last.error().code, ErrorCode::kUnavailable) << "a good token may come again";
  EXPECT_TRUE(auth.identify("good", "10.0.0.8:4711"));
  EXPECT_TRUE(auth.identify("good", "10.0.0.7:4712")) << "it is known already";
  EXPECT_FALSE(auth.identify("bad", "[fd00::7]:1").error().message.find("too many") !=
               std::string::npos);
  clock.advance(seconds(1));
  EXPECT_TRUE(auth.identify("good, a new one", "10.0.0.7:4713"));
  // A crowd behind one address, all of them with good tokens.
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(auth.identify("good" + std::to_string(i), "10.0.0.9:1"));
  }
  // Those that were seen long ago do not pile up, and others come and go without end.
  for (int i = 0; i < 30'000; ++i) {
    (void)auth.identify("bad and another", "10.1." + std::to_string(i) + ":1");
  }
}

TEST(TokenAuth, TheApiServersTroubleIsNotTheCallersFault) {
  FakeClock clock;
  TokenAuth auth([](const json&) -> Result<json> { return fail(ErrorCode::kTimeout, "slow"); },
                 seconds(60), clock);
  for (int i = 0; i < 200; ++i) {
    const auto refused = auth.identify("t" + std::to_string(i), "10.0.0.7:1");
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().message.find("too many bad ones"), std::string::npos) << i;
  }
  EXPECT_EQ(auth.identify("").error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(auth.identify(std::string(100'000, 'x')).error().code, ErrorCode::kUnauthorized);
}

}  // namespace
}  // namespace compilecache::controller
