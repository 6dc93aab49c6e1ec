#include "kube/credentials.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kube/client.hpp"
#include "kube/cpprest_transport.hpp"
#include "tests/support/fake_apiserver.hpp"

namespace compilecache::kube {
namespace {

namespace fs = std::filesystem;
using compilecache::testing::fake_status;
using compilecache::testing::FakeApiServer;
using compilecache::testing::FakeConnection;
using compilecache::testing::FakeRequest;
using std::chrono::seconds;

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    folder = fs::path(::testing::TempDir()) /
             ("kube-credentials-" +
              std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder);
    fs::create_directories(folder);
    config.source = "the test";
  }
  ~CredentialsTest() override { fs::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder / name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  // A plugin that runs `body` in a shell.
  void use_plugin(const std::string& body) {
    config.exec = ExecPlugin{.command = write("plugin", "#!/bin/sh\n" + body),
                             .install_hint = "get it from the cloud"};
  }
  std::string plugin_error() {
    auto credentials = make_credential_source(config, clock)->current();
    return credentials ? "no error" : credentials.error().message;
  }

  fs::path folder;
  FakeClock clock;
  Config config;
};

// Counts its runs and gives the count as the token.
std::string counting(const std::string& folder, const std::string& expiration) {
  return "echo run >> " + folder + "/runs\nn=$(wc -l < " + folder +
         "/runs)\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":"
         "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"t'$n'\"" +
         (expiration.empty() ? "" : ",\"expirationTimestamp\":\"" + expiration + "\"") + "}}'\n";
}

TEST_F(CredentialsTest, ATokenFileIsReadAgainAfterAMinute) {
  config.token_file = write("token", "one\n");
  auto source = make_credential_source(config, clock);
  EXPECT_EQ(source->current()->bearer_token, "one");
  write("token", "two");
  EXPECT_EQ(source->current()->bearer_token, "one");
  clock.advance(seconds(60));
  EXPECT_EQ(source->current()->bearer_token, "two");
}

TEST_F(CredentialsTest, ARejectedTokenIsReadAgainAtOnce) {
  config.token_file = write("token", "one");
  auto source = make_credential_source(config, clock);
  const Credentials first = *source->current();
  write("token", "two");
  source->rejected(first);
  EXPECT_EQ(source->current()->bearer_token, "two");
}

TEST_F(CredentialsTest, TheOldTokenIsKeptWhileTheFileCannotBeRead) {
  config.token_file = write("token", "one");
  auto source = make_credential_source(config, clock);
  EXPECT_TRUE(source->current());
  fs::remove(folder / "token");
  clock.advance(seconds(61));
  EXPECT_EQ(source->current()->bearer_token, "one");
}

TEST_F(CredentialsTest, AMissingTokenFileIsAnError) {
  config.token_file = (folder / "none").string();
  auto credentials = make_credential_source(config, clock)->current();
  EXPECT_NE(credentials.error().message.find("none"), std::string::npos);
}

TEST_F(CredentialsTest, APluginRunsOnceUntilWhatItGaveExpires) {
  use_plugin(counting(folder.string(), "2030-01-01T00:00:00Z"));
  clock.advance(std::chrono::sys_days{std::chrono::year(2029) / 12 / 31} - clock.wall());
  auto source = make_credential_source(config, clock);
  EXPECT_EQ(source->current()->bearer_token, "t1");
  EXPECT_EQ(source->current()->bearer_token, "t1");
  clock.advance(std::chrono::hours(24) - seconds(11));
  EXPECT_EQ(source->current()->bearer_token, "t1");
  clock.advance(seconds(1));
  EXPECT_EQ(source->current()->bearer_token, "t2") << "ten seconds before the end";
}

TEST_F(CredentialsTest, APluginRunsAgainWhenItsTokenIsRejected) {
  use_plugin(counting(folder.string(), ""));
  auto source = make_credential_source(config, clock);
  const Credentials first = *source->current();
  source->rejected(first);
  EXPECT_EQ(source->current()->bearer_token, "t2");
  source->rejected(first);
  EXPECT_EQ(source->current()->bearer_token, "t2") << "that token is not in use any more";
}

TEST_F(CredentialsTest, APluginIsToldOfTheCluster) {
  use_plugin("printf '%s' \"$KUBERNETES_EXEC_INFO\" > " + folder.string() +
             "/info\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":"
             "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'$1$EXTRA'\"}}'\n");
  config.exec->args = {"argument"};
  config.exec->env = {{"EXTRA", "-and-variable"}};
  config.exec->provide_cluster_info = true;
  config.server = "https://api:6443";
  EXPECT_EQ(make_credential_source(config, clock)->current()->bearer_token,
            "argument-and-variable");
  std::ifstream file(folder / "info");
  const std::string info{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(info.find("\"server\":\"https://api:6443\""), std::string::npos) << info;
}

TEST_F(CredentialsTest, APluginHearsSignalsThatThisProgramBlocks) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  use_plugin("kill -TERM $$\n" + counting(folder.string(), ""));
  EXPECT_NE(plugin_error(), "no error");
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST_F(CredentialsTest, PluginFailuresSayWhatAndWhy) {
  config.exec = ExecPlugin{.command = "no-such-plugin-here", .install_hint = "get it"};
  EXPECT_NE(plugin_error().find("no-such-plugin-here of the test: no such program; get it"),
            std::string::npos)
      << plugin_error();
  use_plugin("echo login first >&2; exit 3\n");
  EXPECT_NE(plugin_error().find("exit code 3: login first"), std::string::npos) << plugin_error();
  use_plugin("echo hello\n");
  EXPECT_NE(plugin_error().find("printed no JSON"), std::string::npos) << plugin_error();
  use_plugin("echo '{\"kind\":\"Other\"}'\n");
  EXPECT_NE(plugin_error().find("no ExecCredential"), std::string::npos) << plugin_error();
  use_plugin("echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"x/v9\"}'\n");
  EXPECT_NE(plugin_error().find("x/v9"), std::string::npos) << plugin_error();
  use_plugin(
      "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\"}'\n");
  EXPECT_NE(plugin_error().find("neither token"), std::string::npos) << plugin_error();
}

// The whole way: a token that expires while the program runs.
TEST_F(CredentialsTest, AnExpiredTokenIsReplacedWithinOneCall) {
  FakeApiServer server;
  server.put("/api/v1/nodes", {{"metadata", {{"name", "n"}}}});
  config.server = server.url();
  config.token_file = write("token", "old");
  const Client client(*make_transport(config, {}, clock));
  EXPECT_TRUE(client.get(resources::kNodes, "", "n"));
  EXPECT_EQ(server.requests().back().headers.at("authorization"), "Bearer old");
  write("token", "new");
  server.script([](const FakeRequest&, FakeConnection& connection) {
    connection.reply(401, fake_status(401, "Unauthorized", "Unauthorized"));
    return true;
  });
  EXPECT_TRUE(client.get(resources::kNodes, "", "n"));
  EXPECT_EQ(server.requests().back().headers.at("authorization"), "Bearer new");
}

TEST_F(CredentialsTest, ACertificateThatIsNoneIsFoundBeforeTheFirstRequest) {
  config.server = "https://127.0.0.1:1";
  config.client_certificate.data = "nonsense";
  config.client_key.data = "nonsense";
  auto transport = make_transport(config);
  ASSERT_FALSE(transport);
  EXPECT_NE(transport.error().message.find("client certificate"), std::string::npos);
  EXPECT_NE(transport.error().message.find("the test"), std::string::npos);
}

}  // namespace
}  // namespace compilecache::kube
