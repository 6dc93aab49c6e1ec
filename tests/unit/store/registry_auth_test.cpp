#include "tests/unit/store/registry_fixture.hpp"

// Credentials: what is asked for, what is shown, and when it is shown anew.

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
  with.tokens = [&](bool push) -> Result<Token> {
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

TEST_F(RegistryAuthTest, ATokenThatTheCallerDoesNotGetIsTheError) {
  RegistryOptions with = options();
  with.tokens = [](bool) -> Result<Token> {
    return fail(ErrorCode::kForbidden, "the operator says no");
  };
  RegistryStore store(with);
  const auto saved = save(store, some_tree());
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kForbidden);
  EXPECT_THAT(saved.error().message, HasSubstr("the operator says no"));
  EXPECT_EQ(registry_.calls(), 0);
}

}  // namespace
}  // namespace compilecache::store::test
