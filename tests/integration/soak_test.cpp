// A busy while: pods come, load, save, break off and go; the API server is killed and comes back;
// the operator's token becomes void and is renewed. Afterwards all is as it should be, and no
// larger. It lasts $CC_SOAK_SECONDS, 180 when that is not set.

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::testing {
namespace {

// Between one disturbance and the next.
constexpr seconds kCalm{8};

class SoakTest : public OperatorTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(install_operator(), "");
    make_node("node-h100", "NVIDIA-H100-80GB-HBM3");
    OperatorProcessOptions options;
    options.token_in_file = true;
    process = std::make_unique<OperatorProcess>(kSettings, options);
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
  }

  // The life of one pod, cut short somewhere while the API server or the operator cannot answer.
  void live(int number) {
    const std::string cache = number % 2 == 0 ? "even" : "odd", name = "p" + std::to_string(number);
    try {
      const auto pod = process->injected(plain_pod(name, cache), ns);
      if (!pod || !apply(*pod).empty()) return;
      const std::string token = pod_token(ns, name);
      process->call("POST", "/v1/load", token, {{"cache", cache}});
      process->call("POST", "/v1/loaded", token,
                    {{"cache", cache}, {"outcome", "DOES_NOT_EXIST"}, {"source", "operator"}});
      const json save = process
                            ->call("POST", "/v1/saves", token,
                                   {{"cache", cache}, {"attempt", name}, {"new_files", 1}})
                            .second;
      // Every third one dies in the middle of its save.
      if (save.value("decision", "") == "granted" && number % 3 != 0) {
        if (commit(token, save, name).first == 200) ++commits;
      }
    } catch (const std::exception&) {
      ++interrupted;
    }
    eventually(seconds(60), [&] {
      return kubectl({"delete", "pod", name, "-n", ns, "--grace-period=0", "--force",
                      "--ignore-not-found"})
                 .exit_code == 0;
    });
  }

  // The cluster's own command, by the folder of its kubeconfig.
  static bool cluster(const std::string& verb, const std::vector<std::string>& rest = {}) {
    const std::string kubeconfig = std::getenv("KUBECONFIG");
    const std::string folder = kubeconfig.substr(0, kubeconfig.rfind('/'));
    std::vector<std::string> command{testing::in_tree("tests/cluster/cluster"), verb,
                                     folder.substr(folder.rfind('/') + 1), "kube-apiserver"};
    command.insert(command.end(), rest.begin(), rest.end());
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.exit_code == 0;
  }

  // The service account is recreated: its tokens so far are void.
  static void void_tokens() {
    kubectl({"delete", "serviceaccount", "compilecache-operator", "-n", kOperatorNamespace});
    kubectl({"create", "serviceaccount", "compilecache-operator", "-n", kOperatorNamespace});
    process->renew_token();
  }

  // As a kubelet: an operator that gives up its lease, since the API server was away for too long,
  // is started again. Nothing else may end it.
  void keep_running() {
    if (process->running()) return;
    ++given_up;
    ASSERT_LE(given_up, occurrences(process->log(), "lost the lease: ending at once"))
        << process->log();
    process->start_again();
  }

  static int occurrences(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  }

  // Lets time go by.
  void pass(seconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
      keep_running();
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }

  static size_t memory() {
    std::ifstream file("/proc/" + std::to_string(process->pid()) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
    }
    return 0;
  }

  std::atomic<int> commits{0}, interrupted{0};
  int given_up = 0;
};

TEST_F(SoakTest, EndsAsItShouldAndNoLarger) {
  const char* wanted = std::getenv("CC_SOAK_SECONDS");
  const seconds duration(wanted != nullptr ? std::atoi(wanted) : 180);
  const json quick = {{"save", {{"lockTimeout", "5s"}}}, {"load", {{"timeout", "5s"}}}};
  make_ready_cache("even", quick);
  ASSERT_EQ(make_cache("odd",
                       [&] {
                         json spec = quick;
                         spec["storage"]["subPath"] = "odd";
                         return spec;
                       }()),
            "");
  sweep("odd");
  ASSERT_TRUE(becomes("odd", "Ready", "True"));

  std::atomic<bool> over{false};
  std::atomic<int> number{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!over) live(++number);
    });
  }
  pass(duration / 4);
  const size_t before = memory();
  int restarts = 0;
  const auto end = std::chrono::steady_clock::now() + duration * 3 / 4;
  do {
    cluster("stop", {"0"});
    std::this_thread::sleep_for(seconds(1));
    cluster("start");
    ++restarts;
    pass(kCalm);
    void_tokens();
    pass(kCalm);
  } while (std::chrono::steady_clock::now() < end);
  over = true;
  for (std::thread& thread : threads) thread.join();
  keep_running();
  std::cout << number << " pods, " << commits << " commits, " << interrupted << " interrupted, "
            << restarts << " restarts of the API server, " << given_up
            << " of the operator; memory " << before / 1024 << " MiB, then " << memory() / 1024
            << " MiB\n";

  EXPECT_GT(commits, 0);
  EXPECT_LE(given_up, restarts) << "the operator gave up without cause";
  ASSERT_TRUE(process->running()) << process->log();
  // The operator's view equals the API server's.
  for (const char* cache : {"even", "odd"}) {
    EXPECT_TRUE(eventually(seconds(60), [&] { return at(status(cache), "/activePods").is_null(); }))
        << status(cache) << process->log();
  }
  EXPECT_TRUE(read_list({"pods", "-n", ns, "-l", api::kCacheLabel}).empty());
  EXPECT_TRUE(eventually(seconds(60),
                         [&] {
                           const json saves = at(status("even"), "/saves/committed"),
                                      others = at(status("odd"), "/saves/committed");
                           return saves.is_number() && others.is_number() &&
                                  saves.get<int>() + others.get<int>() >= commits;
                         }))
      << status("even") << status("odd");
  // A lock that a dead pod left does not keep the next one from saving.
  for (const std::string cache : {"even", "odd"}) {
    const std::string token = run_pod("last-" + cache, cache);
    EXPECT_EQ(commit(token, granted(token, cache, "z"), "last-" + cache).first, 200);
  }
  for (const json& archive : read_list({"compilecachearchives", "-n", ns})) {
    EXPECT_EQ(at(archive, "/status/lock/holder"), json()) << archive;
    EXPECT_TRUE(at(archive, "/metadata/ownerReferences/0/uid").is_string());
  }
  EXPECT_EQ(read_list({"compilecachearchives", "-n", ns}).size(), 2u);
  // Buffers of the first pods and connections to an ended server are not growth.
  EXPECT_LT(memory(), before + 12 * 1024);
}

}  // namespace
}  // namespace compilecache::testing
