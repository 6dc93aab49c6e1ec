#include "kube/config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace compilecache::kube {
namespace {

namespace fs = std::filesystem;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() {
    folder = fs::path(::testing::TempDir()) /
             ("kube-config-" +
              std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder);
  }
  ~ConfigTest() override { fs::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) const {
    const fs::path path = folder / name;
    std::ofstream(path) << text;
    return path.string();
  }
  // The error that this kubeconfig gives.
  std::string error_of(const std::string& text) const {
    const std::string path = write("config", text);
    auto config = load_kubeconfig(path);
    if (config) return "no error";
    EXPECT_NE(config.error().message.find(path), std::string::npos) << config.error().message;
    return config.error().message;
  }
  void expect_error(const std::string& text, const std::string& part) const {
    const std::string message = error_of(text);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }

  fs::path folder;
};

constexpr const char* kGood = R"(
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: ml}}
- {name: two, context: {cluster: d, user: v}}
clusters:
- name: c
  cluster: {server: "https://10.0.0.1:6443/", certificate-authority-data: Y2E=, tls-server-name: api}
- name: d
  cluster: {server: "https://other:443", certificate-authority: pki/ca.crt}
users:
- name: u
  user: {client-certificate-data: Y2VydA==, client-key-data: a2V5}
- name: v
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./get-token
      args: [--cluster, x]
      env: [{name: A, value: "1"}]
      provideClusterInfo: true
)";

TEST_F(ConfigTest, ReadsTheCurrentContext) {
  auto config = load_kubeconfig(write("config", kGood));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->cluster_name, "c");
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->ca.data, "ca");
  EXPECT_EQ(config->tls_server_name, "api");
  EXPECT_EQ(config->client_certificate.data, "cert");
  EXPECT_EQ(config->client_key.data, "key");
  EXPECT_EQ(config->default_namespace, "ml");
}

TEST_F(ConfigTest, ReadsANamedContextWithFilesBesideTheKubeconfig) {
  auto config = load_kubeconfig(write("config", kGood), "two");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->ca.file, (folder / "pki/ca.crt").string());
  ASSERT_TRUE(config->exec);
  EXPECT_EQ(config->exec->command, (folder / "get-token").string());
  EXPECT_EQ(config->exec->args, (std::vector<std::string>{"--cluster", "x"}));
  EXPECT_EQ(config->exec->env.front().first, "A");
  EXPECT_TRUE(config->exec->provide_cluster_info);
  EXPECT_EQ(config->default_namespace, "default");
}

TEST_F(ConfigTest, ErrorsNameTheFileAndTheKey) {
  auto missing = load_kubeconfig((folder / "none").string());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("cannot open"), std::string::npos);

  expect_error("{", "line 1");
  expect_error("just text", "is this a kubeconfig?");
  expect_error("contexts: []", "current-context is not set");
  expect_error("current-context: x\ncontexts: []", "contexts has no entry named \"x\"");
  expect_error("current-context: x\ncontexts: {}", "contexts must be a list");
  expect_error("current-context: x\ncontexts: [{name: x, context: {user: u}}]",
               "contexts[x].context.cluster is missing");
}

// A kubeconfig with these cluster and user mappings.
std::string with(const std::string& cluster, const std::string& user) {
  return "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
         "clusters: [{name: c, cluster: " +
         cluster + "}]\nusers: [{name: u, user: " + user + "}]\n";
}

TEST_F(ConfigTest, ErrorsOfClustersNameTheKey) {
  expect_error(with("{}", "{}"), "clusters[c].cluster.server is \"\"");
  expect_error(with("{server: 10.0.0.1}", "{}"), "it must be a URL");
  expect_error(with("{server: [1]}", "{}"), "clusters[c].cluster.server must be a string");
  expect_error(with("{server: https://a, certificate-authority-data: '%%'}", "{}"),
               "clusters[c].cluster.certificate-authority-data is not base64");
  expect_error(with("{server: https://a, insecure-skip-tls-verify: maybe}", "{}"),
               "insecure-skip-tls-verify must be true or false");
  expect_error(with("{server: https://a, insecure-skip-tls-verify: true, "
                    "certificate-authority: ca}",
                    "{}"),
               "remove one of them");
  expect_error(with("{server: https://a, proxy-url: http://p}", "{}"), "proxy-url");
}

TEST_F(ConfigTest, ErrorsOfUsersNameTheKey) {
  const std::string cluster = "{server: https://a}";
  expect_error(with(cluster, "{client-certificate: c}"), "users[u].user.client-key is missing");
  expect_error(with(cluster, "{username: a, password: b}"), "users[u].user.username");
  expect_error(with(cluster, "{auth-provider: {name: gcp}}"), "users[u].user.auth-provider");
  expect_error(with(cluster, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"),
               "users[u].user.exec.command is missing");
  expect_error(with(cluster, "{exec: {command: a, apiVersion: v1alpha1}}"),
               "users[u].user.exec.apiVersion is \"v1alpha1\"");
  expect_error(with(cluster, "{exec: no}"), "users[u].user.exec must be a mapping");
}

TEST_F(ConfigTest, InClusterUsesTheServiceAccount) {
  write("ca.crt", "ca");
  write("token", "t");
  write("namespace", "compile-cache\n");
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "KUBERNETES_SERVICE_HOST") return "10.96.0.1";
    if (name == "KUBERNETES_SERVICE_PORT") return "443";
    return std::nullopt;
  };
  auto config = in_cluster_config(environment, folder.string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://10.96.0.1:443");
  EXPECT_EQ(config->token_file, (folder / "token").string());
  EXPECT_EQ(config->default_namespace, "compile-cache");

  fs::remove(folder / "token");
  EXPECT_NE(in_cluster_config(environment, folder.string()).error().message.find("token"),
            std::string::npos);
}

TEST_F(ConfigTest, AnIpv6ServiceHostIsInBrackets) {
  write("ca.crt", "ca");
  write("token", "t");
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "KUBERNETES_SERVICE_HOST" ? "fd00::1" : "443";
  };
  EXPECT_EQ(in_cluster_config(environment, folder.string())->server, "https://[fd00::1]:443");
}

TEST_F(ConfigTest, ChoosesFlagThenVariableThenClusterThenHome) {
  const std::string path = write("config", kGood);
  fs::create_directories(folder / ".kube");
  write(".kube/config", kGood);
  std::map<std::string, std::string> variables;
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
  EXPECT_NE(load_config({}, environment).error().message.find("give --kubeconfig"),
            std::string::npos);
  variables["HOME"] = folder.string();
  EXPECT_EQ(load_config({}, environment)->source, (folder / ".kube/config").string());
  variables["KUBECONFIG"] = "/nowhere:" + path;
  EXPECT_EQ(load_config({}, environment)->source, path);
  EXPECT_EQ(load_config({.context = "two"}, environment)->server, "https://other:443");
  variables["KUBECONFIG"] = "/nowhere";
  EXPECT_NE(load_config({}, environment).error().message.find("KUBECONFIG=/nowhere"),
            std::string::npos);
  EXPECT_EQ(load_config({.kubeconfig = path}, environment)->source, path);
}

}  // namespace
}  // namespace compilecache::kube
