#include "operator/registry_access.hpp"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "tests/unit/operator/read_token.hpp"

// Tokens for people, by docker's protocol.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

TEST(TokenScope, IsARepositoryOfACompileCache) {
  EXPECT_EQ(parse_scope("repository:ml/transformer:pull"),
            (TokenScope{"ml", "transformer", true, false}));
  EXPECT_EQ(parse_scope("repository:ml/a.b-c:push,pull"), (TokenScope{"ml", "a.b-c", true, true}));
  EXPECT_EQ(parse_scope("repository:ml/x:*"), (TokenScope{"ml", "x", false, false}));
  EXPECT_EQ(parse_scope("repository:ml/x:delete"), (TokenScope{"ml", "x", false, false}));
  for (const char* odd :
       {"", "registry:catalog:*", "repository:ml:pull", "repository:ml/a/b:pull",
        "repository:/x:pull", "repository:ml/:pull", "repository:ML/x:pull", "repository:ml/x",
        "repository(plugin):ml/x:pull", "repository:m l/x:pull", "repository:ml/../x:pull",
        "repository:ml.a/x:pull"}) {
    EXPECT_FALSE(parse_scope(odd)) << odd;
  }
  EXPECT_FALSE(parse_scope("repository:" + std::string(64, 'a') + "/x:pull"));
}

TEST(TokenScope, ThereMayBeSeveralAndNotMany) {
  EXPECT_EQ(requested_scopes("service=registry&scope=repository%3Aml%2Fa%3Apull&x=1&"
                             "scope=repository:ml/b:pull+repository:ml/c:pull%2Cpush"),
            (std::vector<TokenScope>{
                {"ml", "a", true, false}, {"ml", "b", true, false}, {"ml", "c", true, true}}));
  EXPECT_TRUE(requested_scopes("scope=%zz&scope=&scopes=repository:ml/a:pull").empty());
  std::string many;
  for (int i = 0; i < 100; ++i) many += "scope=repository:ml/a" + std::to_string(i) + ":pull&";
  EXPECT_EQ(requested_scopes(many).size(), kMostScopes);
}

// An API server that knows the token "good", whose user may do `allowed` ("get ml").
class RegistryTokens : public ::testing::Test {
 protected:
  RegistryTokens() { EXPECT_TRUE(minter.use(authority)); }

  RegistryAccess::Create create() {
    return [this](const kube::Resource& resource, const json& object) -> Result<json> {
      asked.push_back(object);
      if (!answers) return fail(ErrorCode::kTimeout, "no answer");
      if (resource.plural == "subjectaccessreviews") {
        const json& what = object.at("spec").at("resourceAttributes");
        EXPECT_EQ(object.at("spec").at("user"), "system:serviceaccount:ml:reader");
        EXPECT_EQ(what.at("group"), "compilecache.dev");
        EXPECT_EQ(what.at("resource"), "compilecachearchives");
        const std::string wish =
            what.at("verb").get<std::string>() + " " + what.at("namespace").get<std::string>();
        const bool yes = std::find(allowed.begin(), allowed.end(), wish) != allowed.end();
        return json{{"status", {{"allowed", yes}}}};
      }
      EXPECT_FALSE(object.at("spec").contains("audiences")) << "the API server's own";
      const bool known = object.at("spec").at("token").get<std::string>().starts_with("good");
      return json{{"status",
                   {{"authenticated", known},
                    {"user", {{"username", "system:serviceaccount:ml:reader"}, {"uid", "u"}}}}}};
    };
  }

  http::Response get(const std::string& authorization, const std::string& scope,
                     const std::string& peer = "10.0.0.7:1") {
    http::Request request;
    request.method = "GET";
    request.path = kRegistryTokenPath;
    request.query = "service=registry&account=any" + (scope.empty() ? "" : "&scope=" + scope);
    request.peer = peer;
    if (!authorization.empty()) request.headers = {{"Authorization", authorization}};
    return endpoint.answer(request);
  }
  static std::string basic(const std::string& both) { return "Basic " + base64_encode(both); }
  // The token's rights, as the registry reads it.
  json access(const std::string& scope) {
    const auto response = get(basic("any:good"), scope);
    EXPECT_EQ(response.status, 200) << response.body;
    const json body = json::parse(response.body);
    EXPECT_EQ(body.at("token"), body.at("access_token"));
    EXPECT_EQ(body.at("expires_in"), 300);
    const auto read = test::read_token(body.at("token"), authority.bundle(), clock.wall());
    EXPECT_TRUE(read.signed_by_leaf && read.leaf_is_trusted);
    EXPECT_EQ(read.payload.at("sub"), "system:serviceaccount:ml:reader");
    return read.payload.at("access");
  }
  static json one(const std::string& name, const Words& actions) {
    return {{"type", "repository"}, {"name", name}, {"actions", actions}};
  }

  FakeClock clock;
  TokenAuthority authority = make_token_authority({}, clock.wall()).value();
  TokenMinter minter{clock, seeded_random(1)};
  std::vector<json> asked;
  Words allowed{"get ml"};
  bool answers = true;
  RegistryTokenEndpoint endpoint{minter, create(), clock};
};

TEST_F(RegistryTokens, WhoMayGetArchivesMayPullThere) {
  EXPECT_EQ(access("repository:ml/a:pull"), json::array({one("ml/a", {"pull"})}));
  EXPECT_EQ(access("repository:ml/a:pull,push"), json::array({one("ml/a", {"pull"})}));
  EXPECT_EQ(access("repository:other/a:pull"), json::array());
  EXPECT_EQ(access("repository:ml/a:pull&scope=repository:other/b:pull,push"),
            json::array({one("ml/a", {"pull"})}));
}

TEST_F(RegistryTokens, WhoMayCreateThemMayPushAndNobodyDeletes) {
  allowed = {"get ml", "create ml"};
  EXPECT_EQ(access("repository:ml/a:pull,push,delete"),
            json::array({one("ml/a", {"pull", "push"})}));
  EXPECT_EQ(access("registry:catalog:*"), json::array());
  EXPECT_EQ(access(""), json::array()) << "a login opens nothing";
}

TEST_F(RegistryTokens, TheTokenComesAsPasswordOrAsBearer) {
  EXPECT_EQ(get("Bearer good", "").status, 200);
  EXPECT_EQ(get(basic("whoever:good"), "").status, 200);
  EXPECT_EQ(get(basic(":good"), "").status, 200);
  EXPECT_EQ(get(basic("good"), "").status, 401);
  EXPECT_EQ(get("Basic !!!", "").status, 401);
  EXPECT_EQ(get("Digest good", "").status, 401);
}

TEST_F(RegistryTokens, ABadTokenIsToldWhatWouldHelp) {
  for (const std::string& bad : {std::string(), basic("any:bad"), basic("any:")}) {
    const auto response = get(bad, "repository:ml/a:pull");
    EXPECT_EQ(response.status, 401);
    EXPECT_THAT(std::string(response.header("WWW-Authenticate").value_or("")),
                HasSubstr("Basic realm="));
    const json error = json::parse(response.body).at("errors").at(0);
    EXPECT_EQ(error.at("code"), "UNAUTHORIZED");
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("kubectl create token"));
  }
  EXPECT_EQ(get(basic("any:" + std::string(20'000, 'x')), "").status, 401);
}

TEST_F(RegistryTokens, StrangersAreLimited) {
  int last = 0;
  for (int i = 0; i < 300; ++i) last = get(basic("any:bad" + std::to_string(i)), "").status;
  EXPECT_EQ(last, 503);
  EXPECT_EQ(asked.size(), 100U);
  EXPECT_EQ(get(basic("any:good"), "", "10.0.0.8:1").status, 200);
}

TEST_F(RegistryTokens, AnswersOfTheApiServerAreBelievedForAWhile) {
  access("repository:ml/a:pull");
  const size_t before = asked.size();
  access("repository:ml/b:pull");
  EXPECT_EQ(asked.size(), before) << "the same namespace";
  allowed = {};
  access("repository:ml/a:pull");
  clock.advance(seconds(61));
  EXPECT_EQ(access("repository:ml/a:pull"), json::array());
  allowed = {"get ml"};
  clock.advance(seconds(11));
  EXPECT_EQ(access("repository:ml/a:pull").size(), 1U);
}

TEST_F(RegistryTokens, TheApiServersTroubleIsNotTheCallersFault) {
  answers = false;
  for (int i = 0; i < 200; ++i) EXPECT_EQ(get(basic("any:good"), "").status, 503);
  answers = true;
  EXPECT_EQ(get(basic("any:good"), "").status, 200);
  answers = false;
  EXPECT_EQ(get(basic("any:good"), "repository:ml/a:pull").status, 503);
}

TEST_F(RegistryTokens, OtherServicesAndMethodsAreRefused) {
  http::Request request;
  request.method = "POST";  // clients fall back to GET
  request.path = kRegistryTokenPath;
  EXPECT_EQ(endpoint.answer(request).status, 405);
  request.method = "GET";
  request.query = "service=docker.io";
  const auto other = endpoint.answer(request);
  EXPECT_EQ(other.status, 400);
  EXPECT_THAT(other.body, Not(HasSubstr("token\":")));
}

}  // namespace
}  // namespace compilecache::controller
