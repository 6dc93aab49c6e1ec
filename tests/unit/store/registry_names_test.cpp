#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/registry/blob_range.hpp"
#include "store/registry/challenge.hpp"
#include "store/registry/docker_config.hpp"
#include "store/registry/manifests.hpp"
#include "store/registry/reference.hpp"
#include "store/registry/refusal.hpp"

// Parsing of texts that users and registries write.

namespace compilecache::store {
namespace {

using ::testing::HasSubstr;

TEST(Reference, HasAHostAndAPath) {
  for (const auto& [text, host, repository] :
       {std::tuple{"harbor.example.com/ml/caches", "harbor.example.com", "ml/caches"},
        {"10.0.0.7:5000/a", "10.0.0.7:5000", "a"},
        {"[fd00::7]:5000/ml/a_b__c-d---e.f", "[fd00::7]:5000", "ml/a_b__c-d---e.f"},
        {"localhost/x1", "localhost", "x1"},
        {"docker.io/me/caches", "docker.io", "me/caches"}}) {
    const auto reference = parse_reference(text);
    ASSERT_TRUE(reference) << reference.error().message;
    EXPECT_EQ(reference->host, host);
    EXPECT_EQ(reference->repository, repository);
  }
}

TEST(Reference, WhatIsWrongIsSaid) {
  const std::string digest = "@sha256:" + std::string(64, 'a');
  for (const auto& [text, word] :
       {std::pair<std::string, std::string>{"https://harbor.example.com/ml", "scheme"},
        {"harbor.example.com/ml/caches:v1", "tag"},
        {"harbor.example.com/ml/caches" + digest, "digest"},
        {"harbor.example.com/ML/caches", "upper-case"},
        {"harbor.example.com/" + std::string(256, 'a'), "256 characters"},
        {"harbor.example.com", "no path"},
        {"harbor.example.com/", "no path"},
        {"harbor.example.com/a//b", "empty part"},
        {"harbor.example.com/a/", "empty part"},
        {"harbor.example.com/a..b", "\"a..b\""},
        {"harbor.example.com/-a", "\"-a\""},
        {"harbor.example.com/a/../b", "\"..\""},
        {"harbor.example.com/a b", "\"a b\""},
        {"ml/caches", "host"},
        {"/ml/caches", "host"},
        {"host:port/ml", "host"},
        {"host.:5/ml", "host"},
        {"[::1/ml", "host"},
        {"user:password@host.example.com/ml", "host"},
        {"", "no path"}}) {
    const auto reference = parse_reference(text);
    ASSERT_FALSE(reference) << text;
    EXPECT_EQ(reference.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(reference.error().message, HasSubstr(word)) << text;
    EXPECT_THAT(reference.error().message, HasSubstr("write it as HOST[:PORT]/PATH")) << text;
  }
  EXPECT_TRUE(check_repository(std::string(255, 'a')));
}

TEST(Reference, LoopbackIsThisMachineAlone) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:5000", "127.255.0.1:5000", "localhost:5000", "[::1]:5000"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"10.127.0.1", "localhost.example.com", "[::2]", "registry:127",
                           "127.example.com", "127.0.0.1.example.com:5000", "127.0.0.1x"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Challenge, SeveralAreToldApart) {
  const auto found = parse_challenges(
      R"(Basic realm="a, b=\"c\"", charset=UTF-8, Bearer realm="https://x/t?a=b",service="r",)"
      R"(scope="repository:a/b:pull,push",error="invalid_token")");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].scheme, "basic");
  EXPECT_EQ(found[0].parameter("realm"), "a, b=\"c\"");
  EXPECT_EQ(found[0].parameter("charset"), "UTF-8");
  EXPECT_EQ(found[1].scheme, "bearer");
  EXPECT_EQ(found[1].parameter("realm"), "https://x/t?a=b");
  EXPECT_EQ(found[1].parameter("scope"), "repository:a/b:pull,push");
  EXPECT_EQ(found[1].parameter("nothing"), "");
  const auto both = challenges_of(
      {{"www-authenticate", "Negotiate"}, {"X", "y"}, {"WWW-Authenticate", "BASIC Realm=x"}});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].scheme, "basic");
  EXPECT_EQ(both[1].parameter("realm"), "x");
}

TEST(Challenge, WhatIsNoneEndsNothing) {
  for (const char* text : {"", ",,,", "=", "Bearer realm=", "Bearer realm=\"x", "\"", "a=b",
                           "Basic \\", "\x01\x02", "Negotiate YII=,,"})
    EXPECT_LE(parse_challenges(text).size(), 2U) << text;
}

const Reference kRepository{"harbor.example.com:8443", "ml/caches/team-a/llama"};

TEST(DockerConfig, TheLongestPathCounts) {
  const std::string text = R"({"auths":{
    "harbor.example.com:8443":{"username":"host","password":"p"},
    "https://harbor.example.com:8443/ml/":{"auth":"bWw6YTpi"},
    "harbor.example.com:8443/ml/other":{"username":"other","password":"p"},
    "harbor.example.com:8443/m":{"username":"half","password":"p"},
    "harbor.example.com":{"username":"port","password":"p"}}})";
  EXPECT_EQ(*credentials_in(text, kRepository), (Credentials{"ml", "a:b", ""}));
  EXPECT_EQ(credentials_in(text, {"harbor.example.com:8443", "x"})->username, "host");
  EXPECT_EQ(credentials_in(text, {"harbor.example.com:8443", "ml/other/x"})->username, "other");
  EXPECT_EQ(credentials_in(text, {"harbor.example.com", "ml/other/x"})->username, "port");
}

TEST(DockerConfig, NamesOfOldAndTokens) {
  const std::string hub = R"({"auths":{"https://index.docker.io/v1/":{"auth":"bWU6c2VjcmV0"}}})";
  for (const char* host : {"docker.io", "index.docker.io", "registry-1.docker.io"})
    EXPECT_EQ(*credentials_in(hub, {host, "me/caches"}), (Credentials{"me", "secret", ""}));
  const std::string token = R"({"auths":{"a.io":{"auth":"PHRva2VuPjo=","identitytoken":"t"},)"
                            R"("https://b.io/v2/":{"username":"<token>","password":"u"}}})";
  EXPECT_EQ(credentials_in(token, {"a.io", "x"})->identity_token, "t");
  EXPECT_EQ(credentials_in(token, {"b.io", "x"})->identity_token, "u");
}

TEST(DockerConfig, WhatCannotBeUsedIsSaid) {
  for (const auto& [text, code, word] :
       {std::tuple<std::string, ErrorCode, std::string>{
            R"({"auths":{"other.io":{"auth":"bWU6c2VjcmV0"}}})", ErrorCode::kUnauthorized,
            "no credentials for harbor.example.com:8443"},
        {R"({})", ErrorCode::kUnauthorized, "no credentials"},
        {R"({"auths":{"harbor.example.com:8443":{}},"credsStore":"desktop"})", ErrorCode::kInvalid,
         "credential helper"},
        {R"({"credHelpers":{"harbor.example.com:8443":"ecr-login"}})", ErrorCode::kInvalid,
         "credential helper"},
        {R"({"auths":{"harbor.example.com:8443":{"auth":"%%"}}})", ErrorCode::kInvalid,
         "base64 of USER:PASSWORD"},
        {"no json", ErrorCode::kInvalid, "docker config"},
        {"[]", ErrorCode::kInvalid, "not a JSON object"}}) {
    const auto found = credentials_in(text, kRepository);
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, code) << found.error().message;
    EXPECT_THAT(found.error().message, HasSubstr(word));
  }
  EXPECT_EQ(credentials_in(R"({"credHelpers":{"harbor.example.com:8443":"x"},)"
                           R"("auths":{"harbor.example.com:8443":{"username":"a"}}})",
                           kRepository)
                ->username,
            "a");
}

std::string body_of(const std::string& code, const std::string& message,
                    const std::string& detail = "null") {
  return R"({"errors":[{"code":")" + code + R"(","message":")" + message + R"(","detail":)" +
         detail + "}]}";
}

TEST(Refusal, EachHasAReasonAndWhatToDo) {
  const std::string no_space =
      R"({"DriverName":"filesystem","Enclosed":{"Op":"write","Path":"/x","Err":28}})";
  for (const auto& [status, body, code, reason] :
       {std::tuple<int, std::string, ErrorCode, std::string>{
            401, body_of("UNAUTHORIZED", "who?"), ErrorCode::kUnauthorized, kReasonUnauthorized},
        {403, body_of("DENIED", "may not"), ErrorCode::kForbidden, kReasonUnauthorized},
        {403, body_of("DENIED", "Quota exceeded"), ErrorCode::kIo, kReasonFull},
        {404, body_of("NAME_UNKNOWN", "x"), ErrorCode::kNotFound, kReasonNoRepository},
        {404, body_of("BLOB_UNKNOWN", "x"), ErrorCode::kNotFound, ""},
        {413, "<html>too large</html>", ErrorCode::kIo, kReasonFull},
        {429, body_of("TOOMANYREQUESTS", "pull rate"), ErrorCode::kThrottled, kReasonUnreachable},
        {500, body_of("UNKNOWN", "x", no_space), ErrorCode::kIo, kReasonFull},
        {500, body_of("UNKNOWN", "no space left on device"), ErrorCode::kIo, kReasonFull},
        {500, body_of("UNKNOWN", "write /data: file too large"), ErrorCode::kTooLarge, ""},
        {507, "", ErrorCode::kIo, kReasonFull},
        {500, "", ErrorCode::kUnavailable, kReasonUnreachable},
        {503, "<html>", ErrorCode::kUnavailable, kReasonUnreachable},
        {400, body_of("MANIFEST_INVALID", "x"), ErrorCode::kInvalid, kReasonUnreachable}}) {
    const Refusal refusal = refusal_of({status, {}, body}, "pushing blob x");
    EXPECT_EQ(refusal.error.code, code) << status << body;
    EXPECT_EQ(refusal.error.reason, reason) << status << body;
    EXPECT_THAT(
        refusal.error.message,
        ::testing::StartsWith("pushing blob x: the registry answered " + std::to_string(status)));
    EXPECT_EQ(refusal.may_pass(), code == ErrorCode::kUnavailable || code == ErrorCode::kThrottled);
  }
  const Refusal said = refusal_of({403, {}, body_of("DENIED", "two\\nlines")}, "x");
  EXPECT_TRUE(said.has("DENIED"));
  EXPECT_THAT(said.error.message, HasSubstr("DENIED: two?lines"));
}

TEST(Refusal, WhatIsNoAnswerIsNeverABlob) {
  for (const ErrorCode code :
       {ErrorCode::kCorrupt, ErrorCode::kNotFound, ErrorCode::kUnavailable, ErrorCode::kTimeout}) {
    const Refusal refusal = no_answer({code, "x"}, "reading");
    EXPECT_NE(refusal.error.code, ErrorCode::kCorrupt);
    EXPECT_NE(refusal.error.code, ErrorCode::kNotFound);
    EXPECT_EQ(refusal.error.reason, kReasonUnreachable);
    EXPECT_TRUE(refusal.may_pass());
  }
  EXPECT_EQ(no_answer({ErrorCode::kUnauthorized, "x"}, "reading").error.reason, kReasonCertificate);
}

TEST(Refusal, RetryAfterIsSecondsAlone) {
  const auto after = [](const std::string& field) {
    return refusal_of({429, {{"retry-after", field}}, ""}, "x").retry_after;
  };
  EXPECT_EQ(after("3"), std::chrono::seconds(3));
  EXPECT_EQ(after("9999999"), std::chrono::seconds(86'400));
  for (const char* field : {"", "-1", "3s", "Wed, 21 Oct 2015 07:28:00 GMT"})
    EXPECT_EQ(after(field), std::nullopt) << field;
}

TEST(Retries, TheyHaveABudget) {
  std::vector<int64_t> slept;
  const Sleeper sleep = [&](std::chrono::milliseconds time) { slept.push_back(time.count()); };
  const RetryLimits limits;
  const Refusal lost = no_answer({ErrorCode::kUnavailable, "x"}, "y");
  const Cutoff none;
  Retries few(limits, sleep, none);
  while (few.again(lost)) {
  }
  EXPECT_EQ(slept, (std::vector<int64_t>{250, 500, 1000}));
  slept.clear();
  Refusal throttled = refusal_of({429, {{"Retry-After", "9"}}, ""}, "x");
  Retries slow(limits, sleep, none);
  while (slow.again(throttled)) {
  }
  EXPECT_EQ(slept, (std::vector<int64_t>{9000, 9000}));
  throttled.retry_after = std::chrono::seconds(60);
  EXPECT_FALSE(Retries(limits, sleep, none).again(throttled)) << "longer than is worth waiting";
  EXPECT_FALSE(Retries(limits, sleep, none).again(refusal_of({403, {}, ""}, "x")));
}

TEST(Retries, NothingIsWaitedForThatTheCutoffEnds) {
  Cutoff cutoff;
  std::vector<int64_t> slept;
  const Sleeper sleep = [&](std::chrono::milliseconds time) { slept.push_back(time.count()); };
  const RetryLimits limits;
  Refusal busy = refusal_of({503, {{"Retry-After", "9"}}, ""}, "x");
  cutoff.set(std::chrono::steady_clock::now() + std::chrono::seconds(8));
  EXPECT_FALSE(Retries(limits, sleep, cutoff).again(busy));
  EXPECT_TRUE(slept.empty());
  cutoff.set(std::chrono::steady_clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(Retries(limits, sleep, cutoff).again(busy));
  const Sleeper ended = [&](std::chrono::milliseconds) {
    cutoff.set(std::chrono::steady_clock::now());
  };
  EXPECT_FALSE(Retries(limits, ended, cutoff).again(busy)) << "it was set during the pause";
}

TEST(ContentRange, IsReadAsItIsWritten) {
  const auto some = parse_content_range("bytes 100-199/1000");
  ASSERT_TRUE(some);
  EXPECT_EQ(some->first, 100U);
  EXPECT_EQ(some->count, 100U);
  EXPECT_EQ(some->total, 1000U);
  EXPECT_EQ(parse_content_range("bytes 0-0/*")->total, std::nullopt);
  EXPECT_EQ(parse_content_range("bytes */7")->count, 0U);
  for (const char* text : {"", "bytes", "bytes 1/2", "bytes 5-4/9", "items 0-1/2", "bytes 0-1/2x",
                           "bytes 0-1", "bytes -1-2/3", "bytes 0-99999999999999999999999/1"})
    EXPECT_FALSE(parse_content_range(text)) << text;
}

TEST(Tags, EverySaveHasItsOwn) {
  const std::string digest = "sha256:0123456789abcdef" + std::string(48, '0');
  EXPECT_EQ(tag_of(7, digest), "g7-0123456789ab");
  EXPECT_TRUE(is_our_tag("g0-0123456789ab"));
  for (const char* tag : {"", "g", "g-0123456789ab", "g7-0123456789a", "g7-0123456789abc", "v1",
                          "gx-0123456789ab", "sha256-0123.sig", "g7-0123456789AB"})
    EXPECT_FALSE(is_our_tag(tag)) << tag;
}

}  // namespace
}  // namespace compilecache::store
