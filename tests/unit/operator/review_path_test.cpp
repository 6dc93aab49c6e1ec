#include "operator/review_path.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/paths.hpp"

// The path by which API servers ask the webhook, with any source of certificates.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::seconds;

constexpr char kConfigurationList[] =
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
constexpr char kSecretList[] = "/api/v1/secrets";

class ReviewPathTest : public ::testing::Test {
 protected:
  static kube::Client client_of(const testing::FakeApiServer& server) {
    kube::Config config;
    config.server = server.url();
    return kube::Client(*kube::make_transport(config));
  }
  static json webhook(const std::string& service, const std::string& path) {
    json webhook = {{"name", service + ".compilecache.dev"},
                    {"clientConfig", {{"caBundle", "of the certificates' issuer"}}}};
    webhook["clientConfig"]["service"] = {{"name", service}, {"namespace", "system"}};
    if (!path.empty()) webhook["clientConfig"]["service"]["path"] = path;
    return webhook;
  }
  void configure(const std::string& path) {
    server.put(kConfigurationList,
               {{"metadata", {{"name", "compilecache"}}},
                {"webhooks", json::array({webhook("compilecache-webhook", path)})}});
  }
  json configuration() { return server.objects(kConfigurationList).at("compilecache"); }
  std::string written() {
    return configuration()["/webhooks/0/clientConfig/service"_json_pointer].value("path", "");
  }
  void later() { clock.advance(seconds(5)); }

  testing::FakeApiServer server;
  FakeClock clock;
  ReviewPathKeeper leader{client_of(server), {.ns = "system"}, [] { return true; }, clock};
  ReviewPathKeeper follower{client_of(server), {.ns = "system"}, [] { return false; }, clock};
};

TEST_F(ReviewPathTest, TheLeaderWritesAPathThatNobodyElseKnows) {
  configure("");
  ASSERT_TRUE(follower.round());
  EXPECT_TRUE(server.objects(kSecretList).empty()) << "only the leader makes it";
  EXPECT_FALSE(follower.path().in_force);
  ASSERT_TRUE(leader.round());
  ASSERT_TRUE(follower.round());
  const std::string secret = leader.path().secret;
  EXPECT_EQ(secret.size(), 32U);
  EXPECT_EQ(follower.path().secret, secret);
  EXPECT_EQ(written(), "/mutate/" + secret);
  for (ReviewPathKeeper* keeper : {&leader, &follower}) {
    EXPECT_FALSE(keeper->path().in_force) << "another API server may not know it yet";
  }
  later();
  for (ReviewPathKeeper* keeper : {&leader, &follower}) {
    ASSERT_TRUE(keeper->round());
    EXPECT_TRUE(keeper->path().in_force);
  }
  EXPECT_EQ(server.objects(kSecretList).size(), 1U);
}

// cert-manager's cainjector writes it, or the keeper of our own authority.
TEST_F(ReviewPathTest, NothingButThePathIsWritten) {
  configure("");
  json before = configuration();
  ASSERT_TRUE(leader.round());
  before["webhooks"][0]["clientConfig"]["service"]["path"] = written();
  before["metadata"]["resourceVersion"] = configuration()["metadata"]["resourceVersion"];
  EXPECT_EQ(configuration(), before);
}

TEST_F(ReviewPathTest, APathThatSomebodyChoseStaysAndIsNoSecret) {
  configure("/mutate");
  ASSERT_TRUE(leader.round());
  later();
  ASSERT_TRUE(leader.round());
  EXPECT_FALSE(leader.path().in_force);
  EXPECT_EQ(written(), "/mutate");
}

// Release 0.1 knows "/mutate" alone, and takes what comes by another path for a mistake.
class RollOut : public ReviewPathTest {
 protected:
  void run(const std::string& name, bool knows, const std::string& phase = "Running") {
    json pod = {{"metadata", {{"name", name}, {"namespace", "system"}}},
                {"status", {{"phase", phase}}}};
    pod["metadata"]["labels"]["app.kubernetes.io/name"] = "compilecache-operator";
    if (knows) pod["metadata"]["labels"]["compilecache.dev/review-path"] = "known";
    server.put(kPodList, pod);
  }
  void end(const std::string& name) { server.erase(kPodList, "system", name); }
  static bool is_secret(const std::string& path) { return path.starts_with("/mutate/"); }

  static constexpr char kPodList[] = "/api/v1/pods";
};

TEST_F(RollOut, FromTheFirstReleaseThePathIsOneThatAllReplicasKnow) {
  run("first-1", false);
  run("first-2", false);
  configure("");  // applied: without the path of 0.1
  run("second-1", true);
  ASSERT_TRUE(follower.round());
  EXPECT_EQ(written(), "/mutate") << "a replica of 0.1 leads";
  end("first-1");
  run("second-2", true);
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(written(), "/mutate");
  EXPECT_FALSE(leader.path().in_force);
  run("first-2", false, "Failed");
  ASSERT_TRUE(leader.round());
  EXPECT_TRUE(is_secret(written())) << written();
  EXPECT_TRUE(configuration()["metadata"]["annotations"].empty());
  later();
  ASSERT_TRUE(leader.round());
  EXPECT_TRUE(leader.path().in_force);
}

TEST_F(RollOut, BackToTheFirstReleaseItKnowsThePathBeforeItServes) {
  run("second-1", true);
  configure("");
  for (int i = 0; i < 2; ++i, later()) ASSERT_TRUE(leader.round());
  ASSERT_TRUE(leader.path().in_force);
  run("first-1", false, "Pending");  // rolled back, with the configuration as it is
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(written(), "/mutate");
  EXPECT_FALSE(leader.path().in_force) << "API servers come by that one";
  end("first-1");
  ASSERT_TRUE(leader.round());
  EXPECT_TRUE(is_secret(written())) << "and forward again";
}

TEST_F(RollOut, BetweenLaterReleasesThePathStays) {
  run("second-1", true);
  configure("");
  ASSERT_TRUE(leader.round());
  const std::string path = written();
  run("third-1", true);
  ASSERT_TRUE(follower.round());
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(written(), path);
}

TEST_F(RollOut, WhatRunsMustBeKnown) {
  configure("");
  server.script([](const testing::FakeRequest& request, testing::FakeConnection& connection) {
    if (request.path.find("/pods") == std::string::npos) return false;
    connection.reply(403, testing::fake_status(403, "Forbidden", "no"));
    return true;
  });
  EXPECT_FALSE(leader.round());
  EXPECT_EQ(written(), "") << "a replica of 0.1 may run";
}

// All that was known is known no more: nobody may be refused by it.
TEST_F(ReviewPathTest, WhatTheConfigurationSaysNowCounts) {
  configure("");
  for (int i = 0; i < 2; ++i, later()) {
    ASSERT_TRUE(leader.round());
    ASSERT_TRUE(follower.round());
  }
  EXPECT_TRUE(follower.path().in_force);
  configure("/mutate");
  ASSERT_TRUE(follower.round());
  EXPECT_FALSE(follower.path().in_force);
  configure("/mutate/of-an-earlier-secret");
  ASSERT_TRUE(leader.round());
  EXPECT_EQ(written(), "/mutate/" + leader.path().secret);
  ASSERT_TRUE(follower.round());
  EXPECT_FALSE(follower.path().in_force) << "it was away in between";
  server.erase(kConfigurationList, "", "compilecache");
  later();
  ASSERT_TRUE(leader.round());
  EXPECT_FALSE(leader.path().in_force);
}

TEST_F(ReviewPathTest, ASecretThatIsMadeAnewIsFollowed) {
  configure("");
  ASSERT_TRUE(leader.round());
  const std::string before = leader.path().secret;
  server.erase(kSecretList, "system", "compilecache-review-path");
  ASSERT_TRUE(leader.round());
  EXPECT_NE(leader.path().secret, before);
  EXPECT_EQ(written(), "/mutate/" + leader.path().secret);
}

TEST_F(ReviewPathTest, ASecretOfSomethingElseIsLeftAloneAndTold) {
  configure("");
  server.put(kSecretList,
             {{"metadata", {{"name", "compilecache-review-path"}, {"namespace", "system"}}},
              {"data", {{"other", base64_encode("x")}}}});
  const Status done = leader.round();
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("compilecache-review-path"), std::string::npos);
  EXPECT_FALSE(leader.path().in_force);
  EXPECT_EQ(written(), "");
}

TEST(ReviewPathLabel, IsOnThePodsThatAreInstalled) {
  std::ifstream file(testing::in_tree("config/operator/deployment.yaml"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t pods = text.find("\n  template:");
  ASSERT_NE(pods, std::string::npos);
  EXPECT_NE(text.find(std::string(kKnowsReviewPathLabel) + ": ", pods), std::string::npos);
}

TEST(ReviewPathPatch, WebhooksOfOthersAreLeftAlone) {
  const auto webhook = [](const char* service, const char* ns, const char* path) {
    json one = {{"name", service}};
    one["clientConfig"]["service"] = {{"name", service}, {"namespace", ns}, {"path", path}};
    return one;
  };
  json configuration = {{"webhooks",
                         {webhook("other", "system", "/"),
                          webhook("compilecache-webhook", "elsewhere", "/"),
                          webhook("compilecache-webhook", "system", "/"),
                          {{"name", "by-url"}, {"clientConfig", {{"url", "https://x"}}}}}}};
  configuration = configuration.patch(path_patch(configuration, "system", "/mutate/s"));
  std::vector<std::string> paths;
  for (const json& one : configuration["webhooks"]) {
    paths.push_back(one.value("/clientConfig/service/path"_json_pointer, "none"));
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"/", "/", "/mutate/s", "none"}));
  EXPECT_TRUE(path_patch(configuration, "system", "/mutate/s").empty());
}

TEST(ReviewPathPatch, WhatSomebodyElseAnnotatedStays) {
  json configuration = {{"metadata", {{"annotations", {{"a", "b"}}}}}, {"webhooks", json::array()}};
  json webhook = {{"name", "pods"}};
  webhook["clientConfig"]["service"] = {{"name", "compilecache-webhook"}, {"namespace", "system"}};
  configuration["webhooks"].push_back(webhook);
  const json before = configuration["metadata"];
  configuration = configuration.patch(path_patch(configuration, "system", "/mutate"));
  EXPECT_EQ(configuration["metadata"]["annotations"].size(), 2U);
  configuration = configuration.patch(path_patch(configuration, "system", "/mutate/s"));
  EXPECT_EQ(configuration["metadata"], before);
}

}  // namespace
}  // namespace compilecache::controller
