#include "operator/registry/registry_tokens.hpp"

#include <gmock/gmock.h>

#include "operator/agents/registry_token_service.hpp"
#include "operator/registry/registry_quota.hpp"
#include "tests/unit/operator/agent_api_fixture.hpp"
#include "tests/unit/operator/read_token.hpp"

// What pods get from POST /v1/registry-token.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(GrantToken, WhoMayDoWhat) {
  EXPECT_EQ(grant_token({}).actions, Words{"pull"});
  EXPECT_EQ(grant_token({.push = true}).actions, (Words{"pull", "push"}));
  EXPECT_EQ(grant_token({.sweeper = true}).actions, (Words{"pull", "push", "delete"}));
  const auto reader = grant_token({.push = true, .may_not_save = "mode_read_only"});
  EXPECT_EQ(reader.actions, Words{"pull"});
  EXPECT_EQ(reader.reason, "mode_read_only");
  const auto full = grant_token({.push = true, .over_quota = "quota_exceeded"});
  EXPECT_EQ(full.actions, Words{"pull"});
  EXPECT_EQ(full.reason, "quota_exceeded");
  EXPECT_EQ(grant_token({.may_not_save = "mode_read_only"}).reason, "") << "it did not ask";
  EXPECT_EQ(grant_token({.sweeper = true, .over_quota = "quota_exceeded"}).actions.size(), 3U)
      << "who deletes makes room";
}

TEST(RegistryQuota, ForANamespaceAndForACompileCache) {
  api::CompileCache cache;
  cache.metadata.ns = "ml";
  cache.spec.retention.max_total_size = 100;
  EXPECT_FALSE(over_quota(cache, {.of_namespace = 199, .of_cache = 100}, 200));
  EXPECT_FALSE(over_quota(cache, {.of_namespace = 1'000, .of_cache = 100}, 0)) << "no bound";
  const auto shared = over_quota(cache, {.of_namespace = 200, .of_cache = 1}, 200);
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->reason, "quota_exceeded");
  EXPECT_THAT(shared->message, HasSubstr("the namespace ml keeps 200"));
  const auto own = over_quota(cache, {.of_namespace = 101, .of_cache = 101}, 200);
  ASSERT_TRUE(own);
  EXPECT_THAT(own->message, HasSubstr("spec.retention.maxTotalSize"));
}

class RegistryToken : public test::AgentApiTest {
 protected:
  RegistryToken() {
    EXPECT_TRUE(minter.use(authority));
    stores.registry.set({.host = "registry.svc:5000", .address = "10.0.0.9:5000"});
    cache.spec.storage = api::StorageSpec{};
    put_cache();
  }

  // The rights of the pod's token, as the registry reads it.
  json access(const std::string& pod, bool push) {
    const auto answer =
        call<api::RegistryToken>("/v1/registry-token", pod, api::RegistryTokenRequest{push});
    reason = answer.reason;
    EXPECT_EQ(answer.expires_seconds, 300);
    const auto read = test::read_token(answer.token, authority.bundle(), clock.wall());
    EXPECT_TRUE(read.signed_by_leaf && read.leaf_is_trusted);
    EXPECT_EQ(read.payload.at("sub"), "ml/" + pod);
    const auto actions = read.payload.at("access").at(0).at("actions").get<Words>();
    EXPECT_EQ(answer.push, std::find(actions.begin(), actions.end(), "push") != actions.end());
    return read.payload.at("access");
  }
  static json one(const Words& actions) {
    return json::array(
        {{{"type", "repository"}, {"name", "ml/transformer"}, {"actions", actions}}});
  }
  void put_head(int64_t bytes) {
    api::CompileCacheArchive archive;
    archive.metadata.ns = "ml";
    archive.metadata.name = "transformer-1";
    archive.cache = "transformer";
    archive.head.manifest_digest = test::digest('1');
    archive.head.compressed_bytes = bytes;
    show(archive);
  }

  TokenAuthority authority = make_token_authority({}, clock.wall()).value();
  std::string reason;
};

TEST_F(RegistryToken, IsForThePodsOwnRepository) {
  EXPECT_EQ(access("a", false), one({"pull"}));
  EXPECT_EQ(access("a", true), one({"pull", "push"}));
  EXPECT_EQ(reason, "");
  EXPECT_EQ(access("job", false), one({"pull", "push", "delete"}));
}

TEST_F(RegistryToken, WhatIsAskedForOpensNothingMore) {
  const auto response =
      send("POST", "/v1/registry-token", "a",
           R"({"push": false, "repository": "other/x", "scope": "registry:catalog:*",
               "actions": ["delete"], "cache": "other"})");
  ASSERT_EQ(response.status, 200);
  const std::string token = json::parse(response.body).at("token");
  EXPECT_EQ(test::read_token(token, authority.bundle(), clock.wall()).payload.at("access"),
            one({"pull"}));
}

TEST_F(RegistryToken, ASweepJobMayReadWhatItCopiesFrom) {
  const auto ask = [&](const std::string& pod) {
    return send("POST", "/v1/registry-token", pod, R"({"source": true, "push": true})");
  };
  EXPECT_EQ(ask("job").status, 403) << "it copies from nowhere";
  cache.spec.storage->copy_from = {.cache = "old"};
  stores.registry.set({.host = "registry:5000", .address = "10.96.0.7:5000"});
  put_cache();
  EXPECT_EQ(ask("a").status, 403) << "applications' pods copy nothing";
  const auto response = ask("job");
  ASSERT_EQ(response.status, 200) << response.body;
  const std::string token = json::parse(response.body).at("token");
  EXPECT_EQ(test::read_token(token, authority.bundle(), clock.wall()).payload.at("access"),
            json::array({{{"type", "repository"}, {"name", "ml/old"}, {"actions", {"pull"}}}}));
  cache.spec.storage->copy_from->claim_name = "caches";
  put_cache();
  EXPECT_EQ(ask("job").status, 403);
}

TEST_F(RegistryToken, OnlyOurPodsGetOne) {
  EXPECT_EQ(send("POST", "/v1/registry-token", "", "{}").status, 401);
  EXPECT_EQ(send("POST", "/v1/registry-token", "stranger", "{}").status, 401);
  EXPECT_EQ(send("POST", "/v1/registry-token", "gone", "{}").status, 403);
  EXPECT_EQ(send("POST", "/v1/registry-token", "a", "[]").status, 400);
  auto plain = std::make_shared<PodView>(*view.pod("ml", "a"));
  plain->injection.reset();
  stores.pods.upsert("ml/a", plain);
  EXPECT_EQ(send("POST", "/v1/registry-token", "a", "{}").status, 403);
}

TEST_F(RegistryToken, WhoMayNotSaveCannotPush) {
  mode = api::Mode::kReadOnly;
  add_pod("reader");
  EXPECT_EQ(access("reader", true), one({"pull"}));
  EXPECT_EQ(reason, "mode_read_only");
  cache.spec.save.allowed_service_accounts = {"trainer"};
  put_cache();
  EXPECT_EQ(access("a", true), one({"pull"}));
  EXPECT_EQ(reason, "service_account_not_allowed");
  cache.spec.save.allowed_service_accounts = {"default"};
  put_cache();
  EXPECT_EQ(access("a", true), one({"pull", "push"}));
  cache.spec.save.policy = api::SavePolicy::kNever;
  put_cache();
  EXPECT_EQ(access("a", true), one({"pull"}));
  EXPECT_EQ(reason, "policy_never");
}

TEST_F(RegistryToken, AboveTheShareNothingIsPushedAndAllIsPulled) {
  settings.registry.namespace_share = 1'000;
  put_head(999);
  EXPECT_EQ(access("a", true), one({"pull", "push"}));
  put_head(1'000);
  EXPECT_EQ(access("a", true), one({"pull"}));
  EXPECT_EQ(reason, "quota_exceeded");
  EXPECT_EQ(access("a", false), one({"pull"}));
  settings.registry.namespace_share = 0;
  EXPECT_EQ(access("a", true), one({"pull", "push"}));
  cache.spec.retention.max_total_size = 999;
  put_cache();
  EXPECT_EQ(access("a", true), one({"pull"}));
}

TEST_F(RegistryToken, AboveTheShareNothingIsCopiedThere) {
  cache.spec.storage->copy_from = {.cache = "old", .claim_name = "old-caches"};
  put_cache();
  settings.registry.namespace_share = 1'000;
  put_head(1'000);
  const auto answer = send("POST", "/v1/sweeps", "job",
                           api::dump(api::SweepRequest{.cache = "transformer",
                                                       .phase = api::SweepPhase::kCopy,
                                                       .found = {found_archive('7', "torch:1")}}));
  EXPECT_EQ(answer.status, 403);
  EXPECT_THAT(answer.body, HasSubstr("the namespace ml keeps"));
  EXPECT_EQ(copy({}, "claim old-caches, old", "above its share"), 200) << "its end is reported";
  settings.registry.namespace_share = 0;
  EXPECT_EQ(copy({found_archive('7', "torch:1")}), 200);
}

TEST_F(RegistryToken, OnlyWhatIsKeptThereCountsForTheShare) {
  settings.registry.namespace_share = 1'000;
  auto elsewhere = std::make_shared<api::CompileCache>(cache);
  elsewhere->metadata.name = "on-a-volume";
  elsewhere->spec.storage->claim_name = "claim";
  stores.caches.upsert("ml/on-a-volume", elsewhere);
  api::CompileCacheArchive archive;
  archive.metadata.ns = "ml";
  archive.metadata.name = "on-a-volume-1";
  archive.cache = "on-a-volume";
  archive.head.compressed_bytes = 5'000;
  show(archive);
  put_head(999);
  EXPECT_EQ(access("a", true), one({"pull", "push"}));
  elsewhere = std::make_shared<api::CompileCache>(*elsewhere);
  elsewhere->spec.storage = api::StorageSpec{};
  stores.caches.upsert("ml/on-a-volume", elsewhere);
  EXPECT_EQ(access("a", true), one({"pull"}));
}

TEST_F(RegistryToken, IsNoneForACompileCacheThatIsKeptElsewhere) {
  cache.spec.storage->claim_name = "claim";
  put_cache();
  const auto response = send("POST", "/v1/registry-token", "a", R"({"push": true})");
  EXPECT_EQ(response.status, 404) << response.body;
}

TEST_F(RegistryToken, WithoutARegistryThereIsNone) {
  const RegistryTokenService service({view, settings, nullptr});
  Caller caller;
  caller.pod = view.pod("ml", "a");
  const auto token = service.token(caller, {});
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(token.error().message, HasSubstr("config/components/registry"));
}

}  // namespace
}  // namespace compilecache::controller
