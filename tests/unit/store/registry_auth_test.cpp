#include <filesystem>

#include "http/server.hpp"
#include "store/registry/text_source.hpp"
#include "store/registry/upload.hpp"
#include "tests/support/connections.hpp"
#include "tests/unit/http/certificates.hpp"
#include "tests/unit/store/registry_fixture.hpp"

// Credentials: what is asked for, what is shown, and when it is shown again.

namespace compilecache::store::test {
namespace {

using ::testing::HasSubstr;

class RegistryAuthTest : public RegistryTest {
 protected:
  RegistryOptions with_password(const std::string& password) {
    write_config(R"({"auths":{")" + registry_.host() + R"(":{"username":"me","password":")" +
                 password + R"("}}})");
    RegistryOptions with = options();
    with.docker_config_file = config_;
    return with;
  }
  void write_config(const std::string& text) { archive::test::write_file(config_, text); }
  // What showed no credentials, of all calls.
  int calls_without() {
    int count = 0;
    for (const auto& call : registry_.seen())
      count += static_cast<int>(call.header("authorization").empty());
    return count;
  }

  const std::string config_ = temp_.path("config.json");
};

TEST_F(RegistryAuthTest, APasswordIsShownOnceItIsAskedFor) {
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  RegistryStore store(with_password("secret"));
  const auto saved = save(store, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(*load(store, saved->archive.manifest), some_tree());
  EXPECT_EQ(calls_without(), 1);
}

TEST_F(RegistryAuthTest, AWrongPasswordIsSaidAndNotTriedForLong) {
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  RegistryStore store(with_password("wrong"));
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kUnauthorized);
  EXPECT_EQ(saved.error().reason, kReasonUnauthorized);
  EXPECT_LE(registry_.calls(), 2);
  // The Secret was corrected, and the kubelet has replaced the file.
  with_password("secret");
  EXPECT_TRUE(save(store, some_tree()));
}

TEST_F(RegistryAuthTest, WithoutCredentialsItSaysWhichSecretIsMissing) {
  registry_.set([](auto& manners) { manners.basic = "me:secret"; });
  RegistryStore anonymous(options());
  const auto saved = save(anonymous, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_THAT(saved.error().message, HasSubstr("spec.storage.registry.secretName"));
  EXPECT_EQ(saved.error().reason, kReasonUnauthorized);

  RegistryOptions missing = options();
  missing.docker_config_file = temp_.path("nothing");
  RegistryStore unmounted(missing);
  const auto other = save(unmounted, some_tree());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().reason, kReasonSecretWrongType);
  EXPECT_NE(other.error().code, ErrorCode::kNotFound);
  missing.docker_config_file = temp_.path("no-such-secret/.dockerconfigjson");
  RegistryStore without(missing);
  EXPECT_EQ(save(without, some_tree()).error().reason, kReasonSecretMissing);

  write_config(R"({"credHelpers":{")" + registry_.host() + R"(":"ecr-login"}})");
  RegistryOptions helped = options();
  helped.docker_config_file = config_;
  RegistryStore helper(helped);
  const auto refused = save(helper, some_tree());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("credential helper"));
  EXPECT_EQ(refused.error().reason, kReasonSecretUnusable);
}

TEST_F(RegistryAuthTest, AuthoritiesThatAreNoneAreSaid) {
  RegistryOptions with = options();
  with.plain_http = false;
  with.ca_file = temp_.path("ca.crt");
  EXPECT_EQ(RegistryStore(with).upkeep()->probe().error().reason, kReasonCaMissing);
  for (const char* text :
       {"", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    archive::test::write_file(with.ca_file, text);
    const auto probe = RegistryStore(with).upkeep()->probe();
    ASSERT_FALSE(probe);
    EXPECT_EQ(probe.error().reason, kReasonCaUnusable) << probe.error().message;
  }
  EXPECT_EQ(registry_.calls(), 0);
}

TEST_F(RegistryAuthTest, TokensOfItsServiceServeForAWhile) {
  registry_.set([](auto& manners) {
    manners.bearer = true;
    manners.token_user = "me:secret";
  });
  FakeClock clock;
  RegistryOptions with = with_password("secret");
  with.clock = &clock;
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  ASSERT_TRUE(load(store, saved->archive.manifest));
  EXPECT_EQ(registry_.tokens_given(), 2) << "to pull, and to push";
  clock.advance(std::chrono::seconds(260));
  ASSERT_TRUE(load(store, saved->archive.manifest));
  EXPECT_EQ(registry_.tokens_given(), 2);
  clock.advance(std::chrono::seconds(11));
  ASSERT_TRUE(load(store, saved->archive.manifest));
  EXPECT_EQ(registry_.tokens_given(), 3) << "before it expires";
}

TEST_F(RegistryAuthTest, ATokenThatIsNoLongerGoodIsReplacedOnceWhereverThatIs) {
  registry_.set([](auto& manners) { manners.bearer = true; });
  RegistryStore store(options());
  const auto saved = save(store, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  const int calls = registry_.calls();
  for (int n = 1; n <= calls; ++n) {
    FakeRegistry fresh;
    fresh.set([](auto& manners) { manners.bearer = true; });
    RegistryOptions there = options();
    there.host = fresh.host();
    RegistryStore again(there);
    int seen = 0;
    fresh.on_every_call([&](const auto&) -> std::optional<FakeRegistry::Fault> {
      if (++seen != n) return std::nullopt;
      return [&fresh](const auto& usual) {
        fresh.revoke_tokens_now();
        return usual();
      };
    });
    const auto result = save(again, some_tree());
    EXPECT_TRUE(result) << n << ": " << result.error().message;
    EXPECT_LE(fresh.tokens_given(), 3) << n;
  }
}

TEST_F(RegistryAuthTest, AnIdentityTokenIsExchanged) {
  registry_.set([](auto& manners) {
    manners.bearer = true;
    manners.refresh_token = "refresh/me";
  });
  write_config(R"({"auths":{")" + registry_.host() + R"(":{"identitytoken":"refresh/me"}}})");
  RegistryOptions with = options();
  with.docker_config_file = config_;
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  EXPECT_TRUE(saved) << saved.error().message;
}

TEST_F(RegistryAuthTest, TheCallersTokensAreShownFromTheFirstRequest) {
  registry_.set([](auto& manners) { manners.bearer = true; });
  registry_.accept_token("mine");
  std::vector<bool> asked;
  RegistryOptions with = options();
  with.tokens = [&](bool push, http::SteadyTime) -> Result<Token> {
    asked.push_back(push);
    return Token{"mine", std::chrono::seconds(300)};
  };
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_TRUE(load(store, saved->archive.manifest));
  EXPECT_EQ(calls_without(), 0);
  EXPECT_EQ(asked, (std::vector<bool>{false, true}));
}

// A host that blobs are redirected to, or whose address an upload gets, is not the registry: it may
// not name the server that gets the registry's password.
TEST_F(RegistryAuthTest, OnlyTheRegistryItselfAsksForThePassword) {
  FakeRegistry elsewhere, thief;
  const auto ask_for_password = [&](const std::string& challenge) {
    elsewhere.on_every_call([=](const auto&) {
      return FakeRegistry::status(401, "", {{"WWW-Authenticate", challenge}});
    });
  };
  registry_.set([](auto& manners) {
    manners.bearer = true;
    manners.token_user = "me:secret";
  });
  RegistryOptions with = with_password("secret");
  with.plain_hosts = {elsewhere.host(), thief.host()};
  const auto saved = [&] {
    RegistryStore store(with);
    return save(store, some_tree());
  }();
  ASSERT_TRUE(saved) << saved.error().message;
  for (const std::string& challenge :
       {"Bearer realm=\"http://" + thief.host() + "/token\",service=\"x\"",
        std::string("Basic realm=\"x\"")}) {
    ask_for_password(challenge);
    registry_.set([&](auto& manners) { manners.blobs_on = elsewhere.host(); });
    RegistryStore reading(with);
    const auto loaded = load(reading, saved->archive.manifest);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().reason, kReasonUnreachable) << loaded.error().message;
    EXPECT_THAT(loaded.error().message, HasSubstr(elsewhere.host()));

    registry_.refuse([&](const auto& call) -> std::optional<FakeRegistry::Answer> {
      if (call.method != "POST") return std::nullopt;
      return FakeRegistry::Answer{
          .status = 202, .headers = {{"Location", "http://" + elsewhere.host() + "/upload"}}};
    });
    RegistryStore writing(with);
    EXPECT_FALSE(save(writing, {{"new", {"another file", false}}}));
    registry_.refuse({});
  }
  EXPECT_EQ(thief.calls(), 0);
  EXPECT_GT(elsewhere.calls(), 0);
  for (const auto& call : elsewhere.seen()) EXPECT_EQ(call.header("authorization"), "");
}

TEST_F(RegistryAuthTest, AnIdentityTokenStaysWithItsTokenService) {
  FakeRegistry thief;
  registry_.set([](auto& manners) { manners.bearer = true; });
  registry_.on_every_call([&](const auto& call) -> std::optional<FakeRegistry::Fault> {
    if (call.method != "POST" || call.target != "/token") return std::nullopt;
    return FakeRegistry::status(307, "", {{"Location", "http://" + thief.host() + "/token"}});
  });
  write_config(R"({"auths":{")" + registry_.host() + R"(":{"identitytoken":"refresh/me"}}})");
  RegistryOptions with = options();
  with.docker_config_file = config_;
  with.plain_hosts = {thief.host()};
  RegistryStore store(with);
  EXPECT_FALSE(save(store, some_tree()));
  EXPECT_EQ(thief.calls(), 0);
}

// Token services that know the action "delete" want it; others refuse a scope that has it.
TEST_F(RegistryAuthTest, DeletingAsksForTheRightThatTheRegistryNames) {
  for (const std::string action : {"delete", "push", "*"}) {
    FakeRegistry registry;
    registry.set([&](auto& manners) {
      manners.bearer = true;
      manners.delete_needs = action;
    });
    RegistryOptions with = options();
    with.host = registry.host();
    RegistryStore store(with);
    const auto first = save(store, some_tree());
    const auto second = save(store, {{"other", {"another file", false}}});
    ASSERT_TRUE(first && second);
    const int before = registry.tokens_given();
    const auto counts = store.upkeep()->remove({first->archive.manifest, second->archive.manifest});
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_EQ(counts->removed, 2U) << action;
    EXPECT_TRUE(registry.manifests().empty()) << action;
    EXPECT_LE(registry.tokens_given(), before + 1) << action << ": one token for all";
    EXPECT_TRUE(store.upkeep()->probe()) << action;
    EXPECT_TRUE(save(store, some_tree())) << action << ": and it still pushes";
  }
}

// "HOST:443" and "HOST" are one origin, and so is "http://HOST" of a registry behind a front that
// ends TLS. A proxy leads to the port, which is not this user's to open.
TEST_F(RegistryAuthTest, AnUploadGetsTheCredentialsHoweverItsPortIsWritten) {
  const http::testing::TestCa authority("an authority");
  std::string location;
  auto registry = http::Server::start(
      {.address = "127.0.0.1", .tls = true}, [&](http::Request request, http::Responder respond) {
        if (!request.header("Authorization"))
          return respond({.status = 401, .headers = {{"WWW-Authenticate", "Basic realm=x"}}});
        if (request.method == "POST")
          return respond({.status = 202, .headers = {{"Location", location}}});
        respond({.status = 201});
      });
  ASSERT_TRUE(registry);
  const auto pair = authority.issue("registry.example.com");
  ASSERT_TRUE((*registry)->set_certificate(pair.certificate_pem, pair.key_pem));
  testing::ConnectionServer proxy([&](testing::Connection& client) {
    client.read_head();
    client.send("HTTP/1.1 200 OK\r\n\r\n");
    client.relay((*registry)->port(), "");
  });
  for (const std::string host : {"registry.example.com", "registry.example.com:443"}) {
    write_config(R"({"auths":{")" + host + R"(":{"username":"me","password":"secret"}}})");
    for (const std::string origin :
         {"https://registry.example.com", "https://registry.example.com:443",
          "https://Registry.example.com", "http://registry.example.com",
          "http://registry.example.com:443", "//registry.example.com", ""}) {
      RegistryClient client({.host = host,
                             .repository = "ml/a",
                             .ca_pem = authority.pem(),
                             .system_authorities = false,
                             .proxy = {"http://" + proxy.host(), {}},
                             .docker_config_file = config_,
                             .sleep = [](std::chrono::milliseconds) {}});
      location = origin + "/v2/ml/a/blobs/uploads/1?_state=x";
      TextSource content("a blob");
      const auto pushed = push_blob(client, digest_of("a blob"), content);
      EXPECT_TRUE(pushed) << host << " " << origin << ": " << pushed.error().message;
    }
  }
}

TEST_F(RegistryAuthTest, ATokenThatTheCallerDoesNotGetIsTheError) {
  RegistryOptions with = options();
  with.tokens = [](bool, http::SteadyTime) -> Result<Token> {
    return fail(ErrorCode::kForbidden, "the operator says no");
  };
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kForbidden);
  EXPECT_THAT(saved.error().message, HasSubstr("the operator says no"));
  EXPECT_EQ(registry_.calls(), 0);
}

// As a kubelet does with the files of a ConfigMap.
TEST_F(RegistryAuthTest, AuthoritiesThatWereReplacedAreReadAgain) {
  const http::testing::TestCa before("before"), now("now");
  auto server = http::Server::start({.address = "127.0.0.1", .tls = true},
                                    [](const http::Request&, const http::Responder& respond) {
                                      respond(http::text_response(200, "ok"));
                                    });
  ASSERT_TRUE(server);
  const auto pair = now.issue("registry.example.com");
  ASSERT_TRUE((*server)->set_certificate(pair.certificate_pem, pair.key_pem));
  const std::string file = temp_.path("ca.crt");
  const auto replace = [&](const std::string& pem) {
    archive::test::write_file(file + ".new", pem);
    std::filesystem::rename(file + ".new", file);
  };
  RegistryClient client({.host = "registry.example.com:" + std::to_string((*server)->port()),
                         .repository = "ml/a",
                         .address = "127.0.0.1",
                         .ca_file = file,
                         .system_authorities = false});
  const auto reason = [&]() -> std::string {
    const auto answer = client.send_whole({.target = "manifests/x", .doing = "asking"}, 1000);
    return answer ? "" : answer.error().error.reason;
  };
  EXPECT_EQ(reason(), kReasonCaMissing);
  replace(before.pem());
  EXPECT_EQ(reason(), kReasonCertificate);
  replace(before.pem() + now.pem());
  EXPECT_EQ(reason(), "");
  replace("nonsense");
  EXPECT_EQ(reason(), kReasonCaUnusable);
  replace(now.pem());
  EXPECT_EQ(reason(), "");
  replace(before.pem());
  EXPECT_EQ(reason(), kReasonCertificate) << "what is not trusted any more is not";
}

}  // namespace
}  // namespace compilecache::store::test
