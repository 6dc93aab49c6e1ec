#include <gtest/gtest.h>

#include <algorithm>

#include "base/base64.hpp"
#include "operator/certificates/certificate_keeper.hpp"
#include "tests/unit/operator/control_fixture.hpp"

// Replicas that share one authority and its certificate.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using test::client_of;
using testing::FakeApiServer;

constexpr char kSecrets[] = "/api/v1/secrets";

class KeeperTest : public ::testing::Test {
 protected:
  CertificateKeeper keeper(bool leads) {
    return {client_of(server), {.ns = "system"}, [leads] { return leads; }, clock};
  }
  FakeApiServer server;
  FakeClock clock;
};

TEST_F(KeeperTest, WhoComesFirstMakesThemAndAllServeThem) {
  CertificateKeeper first = keeper(true), second = keeper(false);
  ASSERT_TRUE(first.prepare());
  ASSERT_TRUE(second.prepare());
  EXPECT_NE(first.current().leaf.key, "");
  EXPECT_EQ(first.current().leaf.key, second.current().leaf.key);
  EXPECT_EQ(server.objects(kSecrets).size(), 1u);
}

TEST_F(KeeperTest, TheLeaderRenewsAndTheOthersFollow) {
  CertificateKeeper leader = keeper(true), follower = keeper(false);
  int changes = 0;
  follower.on_change([&](const ServedCertificate&) { ++changes; });
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(follower.prepare());
  const std::string before = leader.current().leaf.certificate;
  clock.advance(hours(24 * 61));
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(follower.current().leaf.certificate, before) << "only the leader rotates";
  ASSERT_TRUE(leader.round());
  EXPECT_NE(leader.current().leaf.certificate, before);
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(follower.current().leaf.certificate, leader.current().leaf.certificate);
  EXPECT_EQ(changes, 2);
}

// Pods that run trust the authority that they were created with, for the rest of their lives.
TEST_F(KeeperTest, TheAuthorityOutlivesItsSecret) {
  CertificateKeeper leader = keeper(true), follower = keeper(false);
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(follower.prepare());
  const auto before = leader.current();
  for (CertificateKeeper* first : {&leader, &follower}) {
    server.erase(kSecrets, "system", "compilecache-certificates");
    ASSERT_TRUE(first->round());
    ASSERT_EQ(server.objects(kSecrets).size(), 1u);
    EXPECT_EQ(secret_entries(first->current()), secret_entries(before));
    CertificateKeeper started_later = keeper(false);
    ASSERT_TRUE(started_later.prepare());
    EXPECT_EQ(started_later.current().ca.key, before.ca.key);
  }
}

TEST_F(KeeperTest, ADamagedSecretIsMendedByTheLeaderAndServedByNobody) {
  CertificateKeeper leader = keeper(true), follower = keeper(false);
  ASSERT_TRUE(leader.prepare());
  ASSERT_TRUE(follower.prepare());
  const auto before = leader.current();
  json damaged = server.objects(kSecrets).begin()->second;
  damaged["data"].erase("ca.key");
  server.put(kSecrets, damaged);
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(secret_entries(follower.current()), secret_entries(before));
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(secret_entries(leader.current()), secret_entries(before));
  EXPECT_TRUE(server.objects(kSecrets).begin()->second["data"].contains("ca.key"));
}

TEST_F(KeeperTest, AnAuthorityThatHasEndedIsNotWrittenAgain) {
  CertificateKeeper leader = keeper(true);
  ASSERT_TRUE(leader.prepare());
  const auto before = leader.current();
  server.erase(kSecrets, "system", "compilecache-certificates");
  clock.advance(hours(24 * 3651));
  ASSERT_TRUE(leader.round());
  EXPECT_NE(leader.current().ca.key, before.ca.key);
}

// Readiness waits for it: a pod created right after would not be injected.
TEST_F(KeeperTest, AReplicaIsTrustedWhenCaBundleHasTheAuthority) {
  constexpr char kConfigurations[] =
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
  const auto configuration = [](const std::string& bundle) {
    return json{{"metadata", {{"name", "compilecache"}}},
                {"webhooks",
                 {{{"name", "pods.compilecache.dev"},
                   {"clientConfig",
                    {{"service", {{"name", "compilecache-webhook"}, {"namespace", "system"}}},
                     {"caBundle", base64_encode(bundle)}}}}}}};
  };
  server.put(kConfigurations, configuration("of another"));
  CertificateKeeper follower = keeper(false);
  ASSERT_TRUE(follower.prepare());
  ASSERT_TRUE(follower.round());
  EXPECT_FALSE(follower.trusted());
  server.put(kConfigurations, configuration(follower.current().bundle()));
  ASSERT_TRUE(follower.round());
  EXPECT_TRUE(follower.trusted());
  // A ready replica stays so: the leader repairs it.
  server.put(kConfigurations, configuration(""));
  ASSERT_TRUE(follower.round());
  EXPECT_TRUE(follower.trusted());
}

// An API server trusts what caBundle says, so nobody may serve what it does not yet have.
TEST_F(KeeperTest, ANewAuthorityDoesNotSignWhileTheBundleCannotBeWritten) {
  constexpr char kConfigurations[] =
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
  CertificateKeeper leader = keeper(true);
  ASSERT_TRUE(leader.prepare());
  const std::string first = leader.current().ca.certificate;
  clock.advance(hours(24 * (3650 - 80)));
  ASSERT_TRUE(leader.round()) << "the next authority is made known";
  ASSERT_FALSE(leader.current().next_ca.empty());
  clock.advance(hours(1));
  // Our object exists, but may not be written.
  server.put(kConfigurations,
             {{"metadata", {{"name", "compilecache"}}},
              {"webhooks",
               {{{"name", "pods.compilecache.dev"},
                 {"clientConfig",
                  {{"service", {{"name", "compilecache-webhook"}, {"namespace", "system"}}}}}}}}});
  const auto forbid = [](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (request.method != "PATCH") return false;
    connection.reply(403, testing::fake_status(403, "Forbidden", "no"));
    return true;
  };
  server.script(forbid);
  server.script(forbid);
  EXPECT_FALSE(leader.round());
  EXPECT_EQ(leader.current().ca.certificate, first);
  EXPECT_EQ(server.scripts_left(), 0U);
}

TEST(CaBundle, IsPatchedWhereItIsOursAndDiffers) {
  auto webhook = [](const char* name, const char* service, const std::string& bundle) {
    return json{
        {"name", name},
        {"clientConfig",
         {{"service", {{"name", service}, {"namespace", "system"}}}, {"caBundle", bundle}}}};
  };
  const std::string good = base64_encode("PEM");
  json configuration = {
      {"webhooks",
       {webhook("other", "other", ""), webhook("ours", "compilecache-webhook", ""),
        webhook("right", "compilecache-webhook", good)}}};
  const json patch = bundle_patch(configuration, "system", "PEM");
  configuration = configuration.patch(patch);
  EXPECT_EQ(configuration["webhooks"][0]["clientConfig"]["caBundle"], "");
  EXPECT_EQ(configuration["webhooks"][1]["clientConfig"]["caBundle"], good);
  EXPECT_TRUE(bundle_patch(configuration, "system", "PEM").empty());
}

}  // namespace
}  // namespace compilecache::controller
