// Many pods load from one slow volume at once: the loader's own program, a real archive, a volume
// whose readers share one wire. No pod waits for longer than its budget, its turn included.
// CC_AGENTS=200 for the number of pods; how long all of them took is printed, with the limit of
// maxConcurrentLoads and without.

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

#include "archive/store.hpp"
#include "base/random.hpp"
#include "tests/integration/agent_crowd.hpp"
#include "tests/integration/operator_fixture.hpp"
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
constexpr char kAllLoads[] = "limits: {maxConcurrentLoads: 10000}\n";
// For a load that is given up to clean up behind itself, on a busy machine.
constexpr milliseconds kCleanUp{10'000};

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
    config.store_path = store;
    config.control_path = folder + "/control";
    config.load_timeout_ms = timeout.count();
    api::AgentConfig::Directory directory;
    directory.framework.name = "torch";
    directory.framework.entry_directories = {"fxgraph/*/*"};
    directory.path = folder + "/torch";
    config.directories = {directory};
    fs::create_directories(folder + "/torch");
    std::ofstream(folder + "/config.json") << api::dump(config);
    std::vector<std::string> line{CC_AGENT_PROGRAM, command, "--config", folder + "/config.json"};
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
    ASSERT_TRUE(archive::prepare_store(volume_->backing("store"), {"cluster", ns, "llama"}, false));
    const ProcessResult saved =
        run_agent("save", pod, folder, volume_->backing("store"), seconds(120));
    ASSERT_EQ(saved.exit_code, 0) << saved.out << saved.err;
    ASSERT_TRUE(eventually(seconds(10), [&] { return at(status("llama"), "/archives") == 1; }))
        << saved.err << process->log();
  }

  // All pods but the first load at once; how long until the last was done. Outcomes by word.
  struct Loads {
    milliseconds all{0}, longest{0};
    std::map<std::string, int> outcomes;
  };
  Loads load(AgentCrowd& crowd, milliseconds timeout) const {
    Loads loads;
    const auto began = Clock::now();
    std::vector<std::thread> threads;
    std::vector<json> statuses(crowd.pods().size());
    for (size_t i = 1; i < crowd.pods().size(); ++i) {
      threads.emplace_back([&, i] {
        const CrowdPod& pod = crowd.pods()[i];
        const std::string folder = crowd.folder() + "/files-" + pod.name;
        const ProcessResult ran = run_agent("load", pod, folder, volume_->path("store"), timeout);
        EXPECT_EQ(ran.exit_code, 0) << ran.err;
        statuses[i] = status_of(folder);
        if (statuses[i].value("outcome", "") != "SUCCESS") {
          EXPECT_TRUE(fs::is_empty(folder + "/torch")) << "a part of an archive";
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    loads.all = std::chrono::duration_cast<milliseconds>(Clock::now() - began);
    for (size_t i = 1; i < statuses.size(); ++i) {
      EXPECT_TRUE(statuses[i].is_object()) << crowd.pods()[i].name << " has no status";
      if (!statuses[i].is_object()) continue;
      const bool loaded = statuses[i].value("outcome", "") == "SUCCESS";
      ++loads.outcomes[loaded ? "loaded" : statuses[i].value("reason", "?")];
      loads.longest =
          std::max(loads.longest, milliseconds(statuses[i].value("milliseconds", int64_t{0})));
    }
    for (const auto& [word, count] : loads.outcomes) std::cout << word << " " << count << ", ";
    std::cout << "all of it " << loads.all.count() << " ms, the slowest pod "
              << loads.longest.count() << " ms\n";
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
  EXPECT_EQ(few.outcomes.at("loaded"), agents());
  ns += "-all";
  make_namespace(ns);
  const Loads all = round(kAllLoads, "300s", seconds(300), wire);
  EXPECT_EQ(all.outcomes.at("loaded"), agents());
  std::cout << agents() << " pods, a volume that needs " << wire.count()
            << " ms for them: 8 at a time take "
            << static_cast<double>(few.all.count()) / static_cast<double>(all.all.count())
            << " times as long as all at once\n";
}

TEST_F(LoadBudget, NoPodWaitsLongerThanItsBudgetAndThoseThatFitLoad) {
  // Time for half of them.
  const milliseconds budget = seconds(10);
  const Loads few = round(kFewLoads, "10s", budget, 2 * budget);
  EXPECT_GT(few.outcomes.at("loaded"), 0);
  EXPECT_LE(few.longest, budget + kCleanUp);
  for (const auto& [word, count] : few.outcomes) {
    EXPECT_TRUE(word == "loaded" || word == "too_many_loads" || word == "too_slow" ||
                word == "timeout")
        << word << " " << count;
  }
}

}  // namespace
}  // namespace compilecache::testing
