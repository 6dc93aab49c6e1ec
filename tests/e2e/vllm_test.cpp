#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <thread>

#include "tests/e2e/sandbox.hpp"
#include "tests/support/paths.hpp"

// vLLM's server as it is released, in the pods of examples/vllm: killed and replaced. It runs as
// root, as its images do, on made-up weights, and compiles as for GPUs (tests/cluster, vllm-image).
// `tests/run.sh engines --in-pods` runs it; control_test.cpp tries the example with a stand-in.

namespace compilecache::e2e {
namespace {

namespace fs = std::filesystem;

// Where the model's file has mode 0600 the first pod, whose saver is not root, saves all but it.
// vLLM 0.32 writes some kernels more at the first start that loads it.
constexpr int kMostPods = 6;
constexpr seconds kLongestStart(1500);
// Some twenty in all: headers are compiled before kernels.
constexpr size_t kCompilersBefore = 5;

// A completion of these tokens, as tokens, since there is no tokenizer.
constexpr char kComplete[] = R"(
import json, urllib.request
asked = {"model": "/model", "prompt": [1, 2, 3], "max_tokens": 8, "temperature": 0, "ignore_eos": True,
         "return_token_ids": True}
request = urllib.request.Request("http://localhost:8000/v1/completions", json.dumps(asked).encode(),
                                 {"Content-Type": "application/json"})
print(json.load(urllib.request.urlopen(request, timeout=300))["choices"][0]["token_ids"]))";

json example(const std::string& ns, const std::string& file) {
  const auto read = kubectl({"create", "--dry-run=client", "-o", "json", "-n", ns, "-f",
                             testing::in_tree("examples/vllm/" + file)});
  EXPECT_EQ(read.exit_code, 0) << read.err;
  return json::parse(read.out, nullptr, false);
}

// Processes of the container, by this machine's numbers, with their names.
std::vector<std::pair<pid_t, std::string>> processes_of(const std::string& container_id) {
  std::vector<std::pair<pid_t, std::string>> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream groups(entry.path() / "cgroup");
    bool ours = false;  // no more of a process that ends meanwhile
    for (std::string line; std::getline(groups, line);) {
      ours |= line.find(container_id) != std::string::npos;
    }
    if (!ours) continue;
    std::string command;
    std::getline(std::ifstream(entry.path() / "comm"), command);
    found.emplace_back(std::stoi(name), command);
  }
  return found;
}

bool is_temporary(const std::string& file) {
  static const std::regex kTemporary(R"((^|/)(\.[^/]*\.tmp|tmp[a-z0-9_]{8}|[^/]*\.lock)(/|$))");
  return std::regex_search(file, kTemporary);
}

class Vllm : public Sandbox {
 protected:
  void start_the_example() {
    json cache = example(ns(), "compilecache.yaml");
    cache["spec"]["storage"] = place().storage();
    ASSERT_EQ(testing::apply(cache), "");
    wait_until_ready("vllm");
    json deployment = example(ns(), "deployment.yaml");
    json& container = deployment["spec"]["template"]["spec"]["containers"][0];
    container["image"] = std::getenv("CC_VLLM_IMAGE");
    container["imagePullPolicy"] = "IfNotPresent";
    container["args"] = {"/model",
                         "--load-format",
                         "dummy",
                         "--skip-tokenizer-init",
                         "--max-model-len",
                         "256",
                         "--compilation-config",
                         R"({"mode":3,"cudagraph_mode":"NONE","compile_sizes":[]})"};
    container["env"] = {{{"name", "VLLM_CPU_KVCACHE_SPACE"}, {"value", "1"}},
                        {{"name", "VLLM_NO_USAGE_STATS"}, {"value", "1"}},
                        {{"name", "HF_HUB_OFFLINE"}, {"value", "1"}}};
    container.erase("resources");
    // Its executor for CPUs shares 160 MiB with its workers.
    container["volumeMounts"] = {{{"name", "shm"}, {"mountPath", "/dev/shm"}}};
    deployment["spec"]["template"]["spec"]["volumes"] = {
        {{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}};
    ASSERT_EQ(testing::apply(deployment), "");
  }

  // The Deployment's pod, other than that one.
  std::string pod_after(const std::string& before) {
    std::string name;
    EXPECT_TRUE(eventually(seconds(120),
                           [&] {
                             const json pods = get_json({"pods", "-n", ns(), "-l", "app=vllm"});
                             for (const json& pod : pods.value("items", json::array())) {
                               if (at(pod, "/metadata/name") != before)
                                 name = at(pod, "/metadata/name");
                             }
                             return !name.empty();
                           }))
        << "nothing replaces " << before;
    return name;
  }

  // Its startup and readiness probes ask /health.
  void wait_until_healthy(const std::string& name) {
    ASSERT_TRUE(eventually(kLongestStart, [&] {
      return at(pod(name), "/status/containerStatuses/0/ready") == true;
    })) << logs(name, "vllm");
  }

  // As the kernel does where a node has too little memory, when some kernels are compiled and one
  // is about to be.
  void kill_server_while_it_compiles(const std::string& name) {
    std::string id;
    ASSERT_TRUE(eventually(seconds(120), [&] {
      const json known = at(pod(name), "/status/containerStatuses/0/containerID");
      if (known.is_string())
        id = known.get<std::string>().substr(std::string("containerd://").size());
      return !id.empty();
    }));
    const auto end = std::chrono::steady_clock::now() + kLongestStart;
    std::set<pid_t> compilers;
    while (compilers.size() < kCompilersBefore) {
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << compilers.size() << " compilers were seen";
      for (const auto& process : processes_of(id)) {
        if (process.second == "cc1plus") compilers.insert(process.first);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    for (const auto& process : processes_of(id)) ::kill(process.first, SIGKILL);
    ASSERT_TRUE(eventually(seconds(120), [&] {
      return at(pod(name), "/status/containerStatuses/0/restartCount") == 1;
    })) << pod(name);
  }

  std::string exec_in_server(const std::string& name, const std::vector<std::string>& command) {
    std::vector<std::string> arguments{"exec", name, "-n", ns(), "-c", "vllm", "--"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const auto done = kubectl(arguments, "", seconds(400));
    EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
    return done.out;
  }
  // The generation after all that this pod has compiled was saved.
  int saved_by(const std::string& name) {
    std::ifstream script(testing::in_tree("examples/ask-for-a-save/ask_for_a_save.sh"));
    const std::string text((std::istreambuf_iterator<char>(script)), {});
    const std::string said = exec_in_server(name, {"sh", "-c", text});
    // Unless its startup probe has asked just now, there is nothing new; "unreadable" tells of the
    // model that the first saver has to leave out.
    static const std::regex kAnswer("SUCCESS|\"(unchanged|unreadable)\"");
    EXPECT_TRUE(std::regex_search(said, kAnswer)) << said;
    return at(wait_for_save(1), "/status/head/generation").get<int>();
  }
  json saver_user(const std::string& name) const {
    for (const json& container : at(pod(name), "/spec/initContainers")) {
      if (container.at("name") == "compilecache-save")
        return at(container, "/securityContext/runAsUser");
    }
    return "there is no saver";
  }
  void expect_effect(const std::string& name, const std::string& effect) {
    json last;
    EXPECT_TRUE(eventually(seconds(60), [&] {
      last = explain(name);
      return at(last, "/effect/effect") == effect;
    })) << last;
  }
  std::set<std::string> models(const json& archive) const {
    std::set<std::string> found;
    for (const std::string& file : archived_files(archive)) {
      if (file.ends_with("/model")) found.insert(file);
    }
    return found;
  }
};

TEST_F(Vllm, AServerThatIsKilledAndReplacedCompilesNothing) {
  ASSERT_NE(std::getenv("CC_VLLM_IMAGE"), nullptr) << "run by tests/run.sh engines --in-pods";
  start_the_example();

  std::string name = pod_after("");
  kill_server_while_it_compiles(name);
  wait_until_healthy(name);
  EXPECT_EQ(at(pod(name), "/status/containerStatuses/0/lastState/terminated/exitCode"), 137);
  EXPECT_EQ(at(explain(name), "/load/outcome"), "none");
  EXPECT_EQ(saver_user(name), nullptr);
  const std::string tokens = exec_in_server(name, {"python3", "-c", kComplete});
  int generation = saved_by(name);
  const json cold = wait_for_save(generation);
  for (const std::string& file : archived_files(cold)) EXPECT_FALSE(is_temporary(file)) << file;
  // A model that only its owner may read (vLLM 0.30 and newer) waits for a saver that is root.
  const bool unreadable = models(cold).empty();
  if (unreadable) {
    EXPECT_GE(at(cold, "/status/head/leftOut").get<int>(), 1);
    ASSERT_TRUE(eventually(seconds(60), [&] {
      return at(cache("vllm"), "/status/fileOwners/0/user") == 0;
    })) << cache("vllm");
  }

  bool saves = true;
  for (int pods = 1; saves && pods < kMostPods; ++pods) {
    const auto killed = kubectl({"delete", "pod", name, "-n", ns(), "--grace-period=0", "--force"});
    ASSERT_EQ(killed.exit_code, 0) << killed.err;
    name = pod_after(name);
    wait_until_healthy(name);
    EXPECT_EQ(at(explain(name), "/load/outcome"), "exact") << explain(name);
    if (unreadable) {
      EXPECT_EQ(saver_user(name), 0);
    }
    EXPECT_EQ(exec_in_server(name, {"python3", "-c", kComplete}), tokens);
    const int before = generation;
    generation = saved_by(name);
    saves = generation != before;
  }
  EXPECT_FALSE(saves) << "each pod saves again";
  expect_effect(name, "full");
  EXPECT_NE(logs(name, "vllm").find("Directly load AOT compilation"), std::string::npos)
      << logs(name, "vllm");
  const json whole = wait_for_save(generation);
  EXPECT_GE(models(whole).size(), 1);
  for (const std::string& file : archived_files(whole)) EXPECT_FALSE(is_temporary(file)) << file;
  EXPECT_EQ(at(pod(name), "/status/containerStatuses/0/restartCount"), 0);
}

}  // namespace
}  // namespace compilecache::e2e
