// Many pods load from one slow volume at once: the loader's own program, a real archive, a volume
// whose readers share one wire. No pod waits for longer than its budget, its turn included.
// CC_AGENTS=200 for the number of pods; how long all of them took is printed, with the limit of
// maxConcurrentLoads and without.

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/random.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/integration/agent_crowd.hpp"
#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"
#include "tests/support/slow_volume/slow_volume.hpp"

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kFiles = 16;
constexpr size_t kFileBytes = 64U << 10;
constexpr uint64_t kArchiveBytes = kFiles * kFileBytes;
constexpr char kFewLoads[] = "limits: {maxConcurrentLoads: 8}\n";
constexpr char kFewestLoads[] = "limits: {maxConcurrentLoads: 4}\n";
constexpr int kFewest = 4;
constexpr char kAllLoads[] = "limits: {maxConcurrentLoads: 10000}\n";
// For a load that is given up to clean up behind itself; 1 s where the machine is not busy.
constexpr milliseconds kCleanUp{5'000};

int agents() {
  const char* wanted = std::getenv("CC_AGENTS");
  return wanted == nullptr ? 40 : std::atoi(wanted);
}

json status_of(const std::string& folder) {
  std::ifstream file(folder + "/control/status.json");
  return json::parse(file, nullptr, false);
}

class LoadBudget : public OperatorTest {
 protected:
  void SetUp() override {
    if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
    OperatorTest::SetUp();
  }

  void operator_with(const std::string& limits) const {
    process->end();
    process = std::make_unique<OperatorProcess>(kSettings + limits);
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }));
  }

  [[nodiscard]] json injected() const {
    return process->injected(plain_pod("any", "llama"), ns).value();
  }

  // Runs the agent for that pod; its exit status.
  static ProcessResult run_agent(const std::string& command, const CrowdPod& pod,
                                 const std::string& folder, const std::string& store,
                                 milliseconds timeout) {
    api::AgentConfig config = pod.config;
    config.cache = "llama";
    config.store = api::VolumeRef{};
    config.store_mount = store;
    config.control_path = folder + "/control";
    config.load.timeout = timeout;
    api::AgentConfig::Directory directory;
    directory.framework.name = "torch";
    directory.framework.entry_directories = {"fxgraph/*/*"};
    directory.path = folder + "/torch";
    config.directories = {directory};
    fs::create_directories(folder + "/torch");
    std::ofstream(folder + "/config.json") << api::dump(config);
    std::vector<std::string> line{testing::in_build("agent/compilecache-agent"), command,
                                  "--config", folder + "/config.json"};
    if (command == "save") line.emplace_back("--once");
    return run_process(line, "", seconds(300));
  }

  // One pod's save, of what does not compress and took long to compile.
  void save(const AgentCrowd& crowd, const CrowdPod& pod) const {
    const std::string folder = crowd.folder() + "/saver";
    const Random random = system_random();
    for (int i = 0; i < kFiles; ++i) {
      const fs::path file = folder + "/torch/fxgraph/ab/KEY" + std::to_string(i) + "/file";
      fs::create_directories(file.parent_path());
      std::string bytes(kFileBytes, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      std::ofstream(file, std::ios::binary) << bytes;
      fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(i));
    }
    ASSERT_TRUE(
        store::DirectoryStore(volume_->backing("store")).prepare({"cluster", ns, "llama"}, false));
    const ProcessResult saved =
        run_agent("save", pod, folder, volume_->backing("store"), seconds(120));
    ASSERT_EQ(saved.exit_code, 0) << saved.out << saved.err;
    ASSERT_TRUE(eventually(seconds(10), [&] { return at(status("llama"), "/archives") == 1; }))
        << saved.err << process->log();
  }

  // All pods but the first load at once.
  struct Load {
    std::string pod, outcome;  // "loaded", or why not
    milliseconds took{0};      // by the loader's own clock, its turn and cleaning up included
  };
  struct Loads {
    milliseconds all{0};  // until the last was done
    std::vector<Load> pods;
    [[nodiscard]] int loaded() const {
      return static_cast<int>(std::count_if(
          pods.begin(), pods.end(), [](const Load& load) { return load.outcome == "loaded"; }));
    }
  };
  Loads load(AgentCrowd& crowd, milliseconds timeout) const {
    Loads loads;
    loads.pods.resize(crowd.pods().size());
    const auto began = Clock::now();
    std::vector<std::thread> threads;
    for (size_t i = 1; i < crowd.pods().size(); ++i) {
      threads.emplace_back([&, i] {
        const CrowdPod& pod = crowd.pods()[i];
        const std::string folder = crowd.folder() + "/files-" + pod.name;
        const ProcessResult ran = run_agent("load", pod, folder, volume_->path("store"), timeout);
        EXPECT_EQ(ran.exit_code, 0) << ran.err;
        const json status = status_of(folder);
        EXPECT_TRUE(status.is_object()) << pod.name << " has no status";
        if (!status.is_object()) return;
        const bool loaded = status.value("outcome", "") == "SUCCESS";
        if (!loaded) {
          EXPECT_TRUE(fs::is_empty(folder + "/torch")) << "a part of an archive";
        }
        const milliseconds took(status.value("milliseconds", int64_t{3'600'000}));
        loads.pods[i] = {pod.name, loaded ? "loaded" : status.value("reason", "?"), took};
      });
    }
    for (std::thread& thread : threads) thread.join();
    loads.all = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
    loads.pods.erase(loads.pods.begin());
    std::map<std::string, int> outcomes;
    for (const Load& load : loads.pods) ++outcomes[load.outcome];
    for (const auto& [word, count] : outcomes) std::cout << word << " " << count << ", ";
    std::cout << "all of it " << loads.all.count() << " ms\n";
    return loads;
  }

  // A whole round with that limit on a volume of its own.
  Loads round(const std::string& limits, const std::string& timeout, milliseconds timeout_ms,
              milliseconds volume_takes) {
    operator_with(limits);
    volume_.emplace();
    make_ready_cache("llama", {{"load", {{"timeout", timeout}}}});
    AgentCrowd crowd(*process, ns, injected(), agents() + 1, 0);
    save(crowd, crowd.pods()[0]);
    volume_->throughput(kArchiveBytes * static_cast<uint64_t>(agents()) * 1000 /
                        static_cast<uint64_t>(volume_takes.count()));
    const Loads loads = load(crowd, timeout_ms);
    kubectl({"delete", "compilecache", "--all", "-n", ns, "--wait=false"});
    return loads;
  }

  std::optional<SlowVolume> volume_;
};

TEST_F(LoadBudget, AllLoadWhereTheVolumeIsFastEnough) {
  const milliseconds wire = agents() * milliseconds(100);
  const Loads few = round(kFewLoads, "300s", seconds(300), wire);
  EXPECT_EQ(few.loaded(), agents());
  ns += "-all";
  make_namespace(ns);
  const Loads all = round(kAllLoads, "300s", seconds(300), wire);
  EXPECT_EQ(all.loaded(), agents());
  std::cout << agents() << " pods, a volume that needs " << wire.count()
            << " ms for them: 8 at a time take "
            << static_cast<double>(few.all.count()) / static_cast<double>(all.all.count())
            << " times as long as all at once\n";
}

TEST_F(LoadBudget, NoPodWaitsLongerThanItsBudgetAndThoseThatFitLoad) {
  // Time for a quarter of them: who waited for its turn without end would wait twice as long as
  // what is allowed here. The first four need less than half of their budget.
  const milliseconds budget = seconds(10);
  const Loads few = round(kFewestLoads, "10s", budget, 4 * budget);
  const std::set<std::string> expected{"loaded", "too_many_loads", "too_slow", "timeout"};
  EXPECT_EQ(few.pods.size(), static_cast<size_t>(agents()));
  for (const Load& load : few.pods) {
    EXPECT_TRUE(expected.contains(load.outcome)) << load.pod << ": " << load.outcome;
    EXPECT_LE(load.took, budget + kCleanUp) << load.pod << ": " << load.outcome;
  }
  EXPECT_GE(few.loaded(), kFewest);
  EXPECT_LT(few.loaded(), agents()) << "the volume was too fast for this to ask anything";
}

}  // namespace
}  // namespace compilecache::testing
