// `kubectl compilecache explain` for a user who may read one namespace and nothing else.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;

// A kubeconfig of the cluster with that user, gone at the end.
class Kubeconfig {
 public:
  Kubeconfig(const json& user, const std::string& ns)
      : path_(fs::temp_directory_path() / ("explain-" + std::to_string(::getpid()) + "-" + ns)) {
    const ProcessResult view =
        kubectl({"config", "view", "--raw", "--minify", "--flatten", "-o", "json"});
    json config = json::parse(view.out);
    config["users"][0]["user"] = user;
    config["contexts"][0]["context"]["namespace"] = ns;
    std::ofstream(path_) << config.dump();
  }
  ~Kubeconfig() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Kubeconfig(const Kubeconfig&) = delete;
  Kubeconfig& operator=(const Kubeconfig&) = delete;

  [[nodiscard]] ProcessResult explain(const std::string& pod,
                                      std::vector<std::string> more = {}) const {
    std::vector<std::string> command{testing::in_build("cli/kubectl-compilecache"), "explain", pod,
                                     "--kubeconfig", path_};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }

 private:
  const fs::path path_;
};

class Explain : public OperatorTest {
 protected:
  // May read what `explain` needs of the namespace; no node.
  [[nodiscard]] json reader() const {
    const json metadata = {{"name", "reader"}, {"namespace", ns}};
    EXPECT_EQ(apply({{"apiVersion", "v1"}, {"kind", "ServiceAccount"}, {"metadata", metadata}}),
              "");
    EXPECT_EQ(
        apply(
            {{"apiVersion", "rbac.authorization.k8s.io/v1"},
             {"kind", "Role"},
             {"metadata", metadata},
             {"rules",
              {{{"apiGroups", {""}}, {"resources", {"pods", "events"}}, {"verbs", {"get", "list"}}},
               {{"apiGroups", {"compilecache.dev"}},
                {"resources", {"compilecaches", "compilecachearchives"}},
                {"verbs", {"get", "list"}}}}}}),
        "");
    EXPECT_EQ(
        apply(
            {{"apiVersion", "rbac.authorization.k8s.io/v1"},
             {"kind", "RoleBinding"},
             {"metadata", metadata},
             {"roleRef",
              {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Role"}, {"name", "reader"}}},
             {"subjects",
              json::array({{{"kind", "ServiceAccount"}, {"name", "reader"}, {"namespace", ns}}})}}),
        "");
    const ProcessResult token = kubectl({"create", "token", "reader", "-n", ns});
    EXPECT_EQ(token.exit_code, 0) << token.err;
    return {{"token", token.out.substr(0, token.out.find('\n'))}};
  }

  void tell(const std::string& path, const std::string& token, json message) const {
    message["cache"] = "llama";
    const auto [status, answer] = process->call("POST", path, token, message);
    EXPECT_EQ(status, 200) << answer;
  }
};

TEST_F(Explain, APodsStoryIsInTheApiServer) {
  make_ready_cache("llama");
  const std::string first = run_pod("first", "llama");
  ASSERT_EQ(process->call("POST", "/v1/load", first, {{"cache", "llama"}}).first, 200);
  tell("/v1/loaded", first,
       {{"outcome", "DOES_NOT_EXIST"},
        {"reason", "no_archive"},
        {"milliseconds", 7},
        {"asked_ms", 5}});
  const json head = commit(first, granted(first, "llama", "a1"), "one").second;
  ASSERT_TRUE(head.contains("manifest_digest")) << head;

  const std::string second = run_pod("second", "llama");
  json load;
  ASSERT_TRUE(eventually(seconds(15), [&] {
    load = process->call("POST", "/v1/load", second, {{"cache", "llama"}}).second;
    return load.value("decision", "") == "load";
  })) << load;
  tell("/v1/loaded", second,
       {{"outcome", "SUCCESS"},
        {"match", "exact"},
        {"archive", load.at("archive")},
        {"generation", load.at("generation")},
        {"milliseconds", 5037},
        {"waited_ms", 5000},
        {"waited_for", "waiting_for_first"},
        {"bytes", 1 << 20}});
  tell("/v1/effect", second,
       {{"effect", "none"},
        {"loaded_entries", 9},
        {"new_entries", 3},
        {"compile_seconds", 12.5},
        {"new_names", {"vllm/torch_compile_cache/0123456789/rank_0_0/backbone/artifact_0"}},
        {"differing", {"VLLM_HOST_IP"}}});
  ASSERT_TRUE(eventually(seconds(15), [&] {
    return status("llama").value("recent", json::array()).dump().find("VLLM_HOST_IP") !=
           std::string::npos;
  })) << status("llama");

  // An archive is of the CompileCache that its spec names, whatever its labels.
  const ProcessResult unlabelled =
      kubectl({"label", "compilecachearchives", "--all", "-n", ns, "compilecache.dev/cache-"});
  ASSERT_EQ(unlabelled.exit_code, 0) << unlabelled.err;
  const Kubeconfig kubeconfig(reader(), ns);
  const ProcessResult cold = kubeconfig.explain("first");
  ASSERT_EQ(cold.exit_code, 0) << cold.err;
  EXPECT_NE(cold.out.find("archive   none: no_archive: nothing was saved yet"), std::string::npos)
      << cold.out;
  EXPECT_NE(cold.out.find("saved     committed"), std::string::npos) << cold.out;
  const json first_story = json::parse(kubeconfig.explain("first", {"-o", "json"}).out);
  EXPECT_EQ(first_story["load"]["nearest"], load.at("archive")) << first_story;

  const ProcessResult warm = kubeconfig.explain("second");
  ASSERT_EQ(warm.exit_code, 0) << warm.err;
  for (const char* told :
       {"injected  yes, by version", "GPUProduct    NVIDIA-H100-80GB-HBM3",
        "archive   exact: llama-", "generation 1", "5000 ms  for the pod that was compiling",
        "effect    none: nothing of what was loaded was used", "differs   VLLM_HOST_IP",
        "change    the variable VLLM_HOST_IP", "CacheNotEffective: loaded archive",
        "unread    node node-h100"}) {
    EXPECT_NE(warm.out.find(told), std::string::npos) << told << " is missing in\n" << warm.out;
  }
  std::cout << warm.out;

  const ProcessResult machine = kubeconfig.explain("second", {"-o", "json", "-n", ns});
  ASSERT_EQ(machine.exit_code, 0) << machine.err;
  const json story = json::parse(machine.out);
  EXPECT_EQ(story["effect"]["effect"], "none");
  EXPECT_EQ(story["effect"]["differing"], json::array({"VLLM_HOST_IP"}));
  EXPECT_EQ(story["load"]["archive"], load.at("archive"));
}

TEST_F(Explain, WhyAPodWasNotInjectedAndWhoMayNotRead) {
  json plain = plain_pod("plain", "llama");
  plain["metadata"].erase("annotations");
  ASSERT_EQ(apply(plain), "");
  ASSERT_EQ(apply(plain_pod("early", "llama")), "");
  const json user = reader();
  const Kubeconfig kubeconfig(user, ns);
  EXPECT_NE(kubeconfig.explain("plain").out.find("injected  no, not_annotated"), std::string::npos);
  EXPECT_NE(kubeconfig.explain("early").out.find("injected  no, cache_not_found"),
            std::string::npos);

  const ProcessResult missing = kubeconfig.explain("nobody");
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("pod \"nobody\" not found in namespace"), std::string::npos)
      << missing.err;
  const ProcessResult elsewhere = kubeconfig.explain("plain", {"-n", "kube-system"});
  EXPECT_EQ(elsewhere.exit_code, 1);
  EXPECT_NE(elsewhere.err.find("forbidden"), std::string::npos) << elsewhere.err;
  EXPECT_EQ(kubeconfig.explain("plain", {"-o", "xml"}).exit_code, 2);
}

TEST_F(Explain, CredentialsOfEveryKindOrAClearWord) {
  ASSERT_EQ(apply(plain_pod("web", "llama")), "");
  const std::string token = reader().at("token");
  const json credential = {{"apiVersion", "client.authentication.k8s.io/v1"},
                           {"kind", "ExecCredential"},
                           {"status", {{"token", token}}}};
  json exec = {{"apiVersion", "client.authentication.k8s.io/v1"},
               {"interactiveMode", "Never"},
               {"command", "echo"},
               {"args", {credential.dump()}}};
  const ProcessResult by_plugin = Kubeconfig({{"exec", exec}}, ns).explain("web");
  EXPECT_EQ(by_plugin.exit_code, 0) << by_plugin.err;
  exec["command"] = "no-such-plugin";
  exec["installHint"] = "get it from the vendor";
  const ProcessResult no_plugin = Kubeconfig({{"exec", exec}}, ns).explain("web");
  EXPECT_EQ(no_plugin.exit_code, 1);
  EXPECT_NE(no_plugin.err.find("no-such-plugin"), std::string::npos) << no_plugin.err;
  EXPECT_NE(no_plugin.err.find("get it from the vendor"), std::string::npos) << no_plugin.err;
  // The cluster's own kubeconfig has a client certificate.
  EXPECT_EQ(run_process({testing::in_build("cli/kubectl-compilecache"), "explain", "web", "-n", ns})
                .exit_code,
            0);
  const char* program = std::getenv("KUBECTL");
  const ProcessResult by_kubectl = run_process(
      {"env",
       "PATH=" + fs::path(testing::in_build("cli/kubectl-compilecache")).parent_path().string() +
           ":" + std::getenv("PATH"),
       program == nullptr ? "kubectl" : program, "compilecache", "explain", "web", "-n", ns});
  EXPECT_EQ(by_kubectl.exit_code, 0) << by_kubectl.err;
  EXPECT_NE(by_kubectl.out.find("web"), std::string::npos) << by_kubectl.out;
}

}  // namespace
}  // namespace compilecache::testing
