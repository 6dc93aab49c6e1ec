#include "operator/registry/registry_keeper.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/base64.hpp"
#include "operator/certificates/x509.hpp"
#include "tests/unit/operator/control_fixture.hpp"
#include "tests/unit/operator/read_token.hpp"

// Replicas that keep the Secrets of the installation's own registry.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using test::client_of;
using testing::FakeApiServer;

constexpr char kRegistrySecrets[] = "/api/v1/secrets";
constexpr char kDeployments[] = "/apis/apps/v1/deployments";
constexpr hours kAuthorityLife(24 * 3650);

// A replica of the operator.
struct Replica {
  Replica(const FakeApiServer& server, const Clock& clock, bool leads, const KeyPair& serving)
      : minter(clock, seeded_random(leads ? 1 : 2)),
        keeper(client_of(server), {.ns = "system", .name = "images"},
               {minter, [leads] { return leads; }, [serving] { return serving; }, seeded_random(3)},
               clock) {}

  TokenMinter minter;
  RegistryKeeper keeper;
};

class RegistryKeeperTest : public ::testing::Test {
 protected:
  // "authority", "auth" or "tls": an entry of that Secret.
  std::string entry(const std::string& secret, const std::string& name) const {
    const auto objects = server.objects(kRegistrySecrets);
    const auto found = objects.find("system/images-" + secret);
    if (found == objects.end()) return "";
    return base64_decode(found->second.at("data").value(name, "")).value_or("");
  }
  // The authority's Secret as somebody else left it.
  void put_authority(const std::map<std::string, std::string>& entries) {
    json data = json::object();
    for (const auto& [name, text] : entries) data[name] = base64_encode(text);
    server.put(kRegistrySecrets,
               {{"metadata", {{"name", "images-authority"}, {"namespace", "system"}}},
                {"type", "Opaque"},
                {"data", data}});
  }
  std::map<std::string, std::string> authority_entries_now() const {
    std::map<std::string, std::string> entries;
    for (const char* name : {"ca.crt", "ca.key", "changed"})
      entries[name] = entry("authority", name);
    return entries;
  }
  void put_deployment() {
    server.put(kDeployments, {{"metadata", {{"name", "images"}, {"namespace", "system"}}},
                              {"spec", {{"template", {{"metadata", json::object()}}}}}});
  }
  std::string mounted() const {
    const json annotations = server.objects(kDeployments)
                                 .at("system/images")
                                 .at("spec")
                                 .at("template")
                                 .at("metadata")
                                 .value("annotations", json::object());
    return annotations.value(kMountedAnnotation, "");
  }
  // The Deployment's controller has recreated the pod: it runs with the present Secrets.
  void start_registry() {
    accepted = entry("auth", "ca.crt");
    json deployment = server.objects(kDeployments).at("system/images");
    deployment["status"] = {{"observedGeneration", 1'000'000},
                            {"replicas", 1},
                            {"updatedReplicas", 1},
                            {"readyReplicas", 1}};
    server.put(kDeployments, deployment);
  }
  void stop_registry() {
    json deployment = server.objects(kDeployments).at("system/images");
    deployment["status"]["readyReplicas"] = 0;
    server.put(kDeployments, deployment);
  }
  // Whether the registry that runs takes what this replica mints.
  bool takes(const Replica& replica) const {
    const auto token = replica.minter.mint("ml/a", {});
    if (!token) return false;
    return test::read_token(token->token, accepted, clock.wall()).leaf_is_trusted;
  }

  FakeApiServer server;
  FakeClock clock;
  const KeyPair serving = make_certificates({"x"}, {}, clock.wall()).value().ca;
  std::string accepted;  // what the registry was started with
  Replica leader{server, clock, true, serving};
  Replica follower{server, clock, false, serving};
};

TEST_F(RegistryKeeperTest, WhoComesFirstMakesTheAuthorityAndAllMintByIt) {
  EXPECT_FALSE(takes(follower));
  ASSERT_TRUE(follower.keeper.round());
  ASSERT_TRUE(leader.keeper.round());
  accepted = entry("auth", "ca.crt");
  EXPECT_TRUE(takes(follower));
  EXPECT_TRUE(takes(leader));
  EXPECT_EQ(accepted, entry("authority", "ca.crt"));
  EXPECT_GE(entry("auth", "http-secret").size(), 32U);
  EXPECT_EQ(server.objects(kRegistrySecrets).size(), 3U);
}

// The registry reads no key but its own, and no leaf key is anywhere.
TEST_F(RegistryKeeperTest, KeysOfTokensStayWithTheOperator) {
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(entry("auth", "ca.crt").find("PRIVATE"), std::string::npos);
  for (const auto& [name, secret] : server.objects(kRegistrySecrets)) {
    std::set<std::string> keys;
    for (const auto& [entry_name, value] : secret.at("data").items()) {
      const std::string text = base64_decode(value.get<std::string>()).value_or("");
      if (text.find("PRIVATE KEY") != std::string::npos) keys.insert(entry_name);
    }
    if (name == "system/images-authority") {
      EXPECT_EQ(keys, std::set<std::string>{"ca.key"});
    }
    if (name == "system/images-auth") {
      EXPECT_TRUE(keys.empty());
    }
    if (name == "system/images-tls") {
      EXPECT_EQ(keys, std::set<std::string>{"tls.key"});
    }
  }
}

TEST_F(RegistryKeeperTest, WhatItServesIsSignedByTheOrdinaryAuthorityAndRenewed) {
  put_deployment();
  ASSERT_TRUE(leader.keeper.round());
  const std::string first = entry("tls", "tls.crt");
  const std::string name = "images.system.svc";
  EXPECT_TRUE(test::serves(first, serving.certificate, name, clock.wall()));
  EXPECT_FALSE(test::serves(first, entry("auth", "ca.crt"), name, clock.wall()));
  const std::string before = mounted();
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(mounted(), before) << "no reason to restart it";
  clock.advance(hours(24 * 61));
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_NE(entry("tls", "tls.crt"), first);
  EXPECT_NE(mounted(), before);
}

TEST_F(RegistryKeeperTest, AnotherOrdinaryAuthoritySignsAnew) {
  ASSERT_TRUE(leader.keeper.round());
  const KeyPair other = make_certificates({"x"}, {}, clock.wall()).value().ca;
  Replica next(server, clock, true, other);
  ASSERT_TRUE(next.keeper.round());
  EXPECT_TRUE(
      test::serves(entry("tls", "tls.crt"), other.certificate, "images.system.svc", clock.wall()));
}

TEST_F(RegistryKeeperTest, SomebodyElsesCertificateIsLeftAloneAndStartsItAnew) {
  put_deployment();
  Replica other(server, clock, true, KeyPair{});
  ASSERT_TRUE(other.keeper.round());
  EXPECT_EQ(entry("tls", "tls.crt"), "");
  const std::string before = mounted();
  server.put(kRegistrySecrets, {{"metadata", {{"name", "images-tls"}, {"namespace", "system"}}},
                                {"data", {{"tls.crt", base64_encode("theirs")}}}});
  ASSERT_TRUE(other.keeper.round());
  EXPECT_EQ(entry("tls", "tls.crt"), "theirs");
  EXPECT_NE(mounted(), before);
}

TEST_F(RegistryKeeperTest, OnlyTheLeaderWrites) {
  put_deployment();
  ASSERT_TRUE(follower.keeper.round());
  EXPECT_EQ(server.objects(kRegistrySecrets).size(), 1U) << "the authority, by the first replica";
  EXPECT_EQ(mounted(), "");
}

// At each step, and however long it takes, the registry that runs takes what replicas mint.
TEST_F(RegistryKeeperTest, TheAuthorityIsReplacedWithoutARefusedToken) {
  put_deployment();
  const auto all_are_taken = [&](const char* when) {
    EXPECT_TRUE(takes(leader)) << when;
    EXPECT_TRUE(takes(follower)) << when;
  };
  const auto rounds = [&] {
    ASSERT_TRUE(leader.keeper.round());
    all_are_taken("the follower has not looked yet");
    ASSERT_TRUE(follower.keeper.round());
    all_are_taken("both have looked");
  };
  ASSERT_TRUE(leader.keeper.round());
  ASSERT_TRUE(follower.keeper.round());
  start_registry();
  rounds();
  const std::string first = entry("authority", "ca.crt");

  clock.advance(kAuthorityLife - hours(24 * 80));
  ASSERT_TRUE(leader.keeper.round());
  ASSERT_TRUE(follower.keeper.round());
  EXPECT_EQ(entry("authority", "ca.crt"), first);
  EXPECT_NE(entry("authority", "next-ca.crt"), "");
  stop_registry();  // its controller is about to recreate it
  rounds();
  EXPECT_EQ(entry("authority", "ca.crt"), first) << "the one that runs does not know the next";
  const std::string told = mounted();
  start_registry();
  rounds();
  EXPECT_NE(entry("authority", "ca.crt"), first);
  EXPECT_EQ(mounted(), told) << "it is not restarted for the switch";

  clock.advance(hours(2));
  rounds();
  EXPECT_EQ(entry("auth", "ca.crt"), entry("authority", "ca.crt"));
  EXPECT_NE(mounted(), told);
  start_registry();
  rounds();
}

TEST_F(RegistryKeeperTest, ALostAuthorityIsMadeAnewAndTheRegistryTold) {
  put_deployment();
  ASSERT_TRUE(leader.keeper.round());
  start_registry();
  const std::string secret = entry("auth", "http-secret"), before = mounted();
  server.erase(kRegistrySecrets, "system", "images-authority");
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(entry("auth", "ca.crt"), entry("authority", "ca.crt"));
  EXPECT_EQ(entry("auth", "http-secret"), secret);
  EXPECT_NE(mounted(), before);
  start_registry();
  EXPECT_TRUE(takes(leader));
}

// Whatever somebody has put there, and whichever part of it.
TEST_F(RegistryKeeperTest, AnAuthorityThatCannotBeReadIsReplaced) {
  put_deployment();
  ASSERT_TRUE(leader.keeper.round());
  const auto good = authority_entries_now();
  const auto other = authority_entries(make_token_authority({}, clock.wall()).value());
  const auto with = [&](const char* name, const std::string& text) {
    auto entries = good;
    entries[name] = text;
    return entries;
  };
  const std::string broken_block =
      "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n";
  const std::vector<std::map<std::string, std::string>> garbage = {
      {},
      {{"ca.crt", "garbage"}, {"ca.key", "garbage"}},
      with("ca.crt", ""),
      with("ca.crt", "garbage"),
      with("ca.crt", good.at("ca.crt") + broken_block),
      with("ca.key", ""),
      with("ca.key", "garbage"),
      with("ca.key", other.at("ca.key")),
      {{"something", "else"}}};
  const auto times_told = [&] {
    const auto requests = server.requests();
    return std::count_if(requests.begin(), requests.end(), [](const auto& request) {
      return request.path.ends_with("/images-auth") && !request.body.empty();
    });
  };
  for (const auto& entries : garbage) {
    put_authority(entries);
    const auto before = times_told();
    const auto done = leader.keeper.round();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_LE(times_told() - before, 1) << "of what replaces it, and of nothing in between";
    ASSERT_TRUE(follower.keeper.round());
    start_registry();
    EXPECT_TRUE(takes(leader));
    EXPECT_TRUE(takes(follower));
    EXPECT_TRUE(is_certificate_list(accepted)) << "a registry ends at one that is broken";
  }
  // A replica that starts meanwhile finds what the leader has made.
  put_authority(garbage[1]);
  Replica another(server, clock, false, serving);
  EXPECT_FALSE(another.keeper.round());
  EXPECT_FALSE(takes(another));
  ASSERT_TRUE(leader.keeper.round());
  ASSERT_TRUE(another.keeper.round());
  start_registry();
  EXPECT_TRUE(takes(another));
}

// Nobody but its owner may delete it.
TEST_F(RegistryKeeperTest, AnImmutableAuthorityIsToldWithWhatToDo) {
  put_deployment();
  server.put(kRegistrySecrets,
             {{"metadata", {{"name", "images-authority"}, {"namespace", "system"}}},
              {"type", "Opaque"},
              {"immutable", true},
              {"data", {{"ca.crt", base64_encode("garbage")}}}});
  server.script([](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (request.method != "PUT") return false;
    connection.reply(422,
                     testing::fake_status(422, "Invalid", "data: Forbidden: field is immutable"));
    return true;
  });
  const auto done = leader.keeper.round();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("kubectl delete secret -n system images-authority"),
            std::string::npos)
      << done.error().message;
  server.erase(kRegistrySecrets, "system", "images-authority");
  ASSERT_TRUE(leader.keeper.round());
  start_registry();
  EXPECT_TRUE(takes(leader));
}

// A registry that is started with what cannot be read does not start.
TEST_F(RegistryKeeperTest, WhatCannotBeReadIsNeverTold) {
  put_deployment();
  put_authority({{"ca.crt", "garbage"}, {"ca.key", "garbage"}, {"previous-ca.crt", "garbage"}});
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(entry("auth", "ca.crt"), entry("authority", "ca.crt"));
  for (const testing::FakeRequest& request : server.requests()) {
    if (request.path.find("images-auth") == std::string::npos || request.body.empty()) continue;
    EXPECT_EQ(request.body.find(base64_encode("garbage")), std::string::npos) << request.path;
  }
  auto entries = authority_entries_now();
  entries["previous-ca.crt"] = entries["next-ca.crt"] = "garbage";
  put_authority(entries);
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(entry("auth", "ca.crt"), entries.at("ca.crt"));
}

// Whose key alone is lost: what was minted by it, and is minted by replicas that have not looked
// yet, is still good.
TEST_F(RegistryKeeperTest, TokensOfAnAuthorityWithoutItsKeyStayGoodForAWhile) {
  put_deployment();
  ASSERT_TRUE(leader.keeper.round());
  ASSERT_TRUE(follower.keeper.round());
  start_registry();
  auto entries = authority_entries_now();
  entries["ca.key"] = "garbage";
  put_authority(entries);
  ASSERT_TRUE(follower.keeper.round()) << "it mints by the key that it has";
  EXPECT_TRUE(takes(follower));
  EXPECT_EQ(entry("authority", "ca.key"), "garbage") << "the leader alone makes another";
  const std::string before = mounted();
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_NE(mounted(), before);
  start_registry();
  EXPECT_TRUE(takes(follower));
  EXPECT_TRUE(takes(leader));
  ASSERT_TRUE(follower.keeper.round());
  EXPECT_TRUE(takes(follower));
  clock.advance(hours(2));
  ASSERT_TRUE(leader.keeper.round());
  EXPECT_EQ(entry("auth", "ca.crt"), entry("authority", "ca.crt")) << "and then dropped";
}

TEST_F(RegistryKeeperTest, AnAuthorityThatCouldNotBeAskedForStays) {
  put_deployment();
  ASSERT_TRUE(leader.keeper.round());
  start_registry();
  const auto before = authority_entries_now();
  const std::string told = mounted();
  const auto is_read = [](const testing::FakeRequest& request) {
    return request.method == "GET" && request.path.find("images-authority") != std::string::npos;
  };
  const std::vector<std::pair<int, std::string>> answers = {
      {500, testing::fake_status(500, "InternalError", "etcd is away")},
      {403, testing::fake_status(403, "Forbidden", "no")},
      {200, "{\"kind\":\"Secret\",\"data\":{\"ca.crt\":"}};
  for (const auto& [status, body] : answers) {
    server.script([&, status = status, body = body](const testing::FakeRequest& request,
                                                    testing::FakeConnection& connection) {
      if (!is_read(request)) return false;
      connection.reply(status, body);
      return true;
    });
    EXPECT_FALSE(leader.keeper.round()) << status;
    ASSERT_EQ(server.scripts_left(), 0U);
    EXPECT_TRUE(takes(leader));
  }
  EXPECT_EQ(authority_entries_now(), before);
  EXPECT_EQ(mounted(), told);
}

TEST_F(RegistryKeeperTest, WithoutADeploymentThereIsNothingToStart) {
  EXPECT_TRUE(leader.keeper.round());
}

TEST(RunsAsWritten, WhenTheOnePodIsOfThePresentTemplateAndReady) {
  const json good = {
      {"metadata", {{"generation", 3}}},
      {"status",
       {{"observedGeneration", 3}, {"replicas", 1}, {"updatedReplicas", 1}, {"readyReplicas", 1}}}};
  EXPECT_TRUE(runs_as_written(good));
  for (const char* name : {"observedGeneration", "updatedReplicas", "readyReplicas", "replicas"}) {
    json bad = good;
    bad["status"].erase(name);
    EXPECT_FALSE(runs_as_written(bad)) << name;
  }
  json two = good;
  two["status"]["replicas"] = 2;
  EXPECT_FALSE(runs_as_written(two)) << "the one before still runs";
  EXPECT_FALSE(runs_as_written(json::object()));
}

}  // namespace
}  // namespace compilecache::controller
