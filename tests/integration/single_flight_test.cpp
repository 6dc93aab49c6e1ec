// Of many cold pods of one key one compiles, the others wait for its archive, and none of them for
// longer than it may. CC_AGENTS=200 for the number of pods; the last wait is printed.

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "tests/integration/agent_crowd.hpp"
#include "tests/integration/operator_fixture.hpp"

namespace compilecache::testing {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCompile{3000};
constexpr milliseconds kLoad{100};
// One answer may come late, on a busy machine; the bound is of the wait, not of the answer.
constexpr milliseconds kSlack{3000};

int agents() {
  const char* wanted = std::getenv("CC_AGENTS");
  return wanted == nullptr ? 60 : std::atoi(wanted);
}

class SingleFlight : public OperatorTest {
 protected:
  void SetUp() override {
    OperatorTest::SetUp();
    make_ready_cache("llama");
  }

  // As the webhook makes them.
  [[nodiscard]] json pod(milliseconds wait_for_first) const {
    json pod = plain_pod("any", "llama");
    pod["metadata"]["annotations"][api::kWaitForFirstAnnotation] =
        std::to_string(wait_for_first.count()) + "ms";
    return process->injected(pod, ns).value();
  }

  // A pod goes on: one that was given an archive loads it, another one does `cold`.
  template <typename Cold>
  void run(AgentCrowd& crowd, Cold cold) {
    crowd.run([&](CrowdPod& pod, const agent::LoadChoice& choice) {
      api::LoadedReport report{
          .outcome = choice.load ? api::Outcome::kSuccess : api::Outcome::kDoesNotExist,
          .reason = choice.status.reason};
      report.archive = choice.status.archive;
      report.match = choice.status.match;
      report.waited_ms = choice.status.waited_ms;
      report.waited_for = choice.status.waited_for;
      if (choice.load) std::this_thread::sleep_for(kLoad);
      EXPECT_TRUE(pod.coordinator->loaded(report, milliseconds(10'000))) << pod.name;
      if (!choice.load) cold(pod, ++compiled_);
    });
  }

  void expect_one_archive_for_all(AgentCrowd& crowd, int compiled) {
    const auto outcomes = crowd.outcomes();
    for (const auto& [outcome, count] : outcomes) std::cout << outcome << " " << count << "\n";
    EXPECT_EQ(compiled_, compiled);
    EXPECT_EQ(outcomes.at("exact"), agents() - compiled) << process->log();
    EXPECT_TRUE(eventually(seconds(15), [&] {
      return at(status("llama"), "/saves/committed") == 1 &&
             at(status("llama"), "/loads/exact") == agents() - compiled;
    })) << status("llama");
  }

  void expect_bounded(const AgentCrowd& crowd, milliseconds bound) const {
    std::cout << agents() << " pods; compiling took " << kCompile.count()
              << " ms; the last pod waited " << crowd.longest_wait().count() << " ms\n";
    EXPECT_LE(crowd.longest_wait(), bound + kSlack);
  }

  std::atomic<int> compiled_{0};
};

TEST_F(SingleFlight, OneCompilesAndTheOthersLoad) {
  const milliseconds bound = seconds(300);
  AgentCrowd crowd(*process, ns, pod(bound), agents(), bound.count());
  run(crowd, [&](CrowdPod& pod, int) {
    std::this_thread::sleep_for(kCompile);
    EXPECT_EQ(crowd_save(pod, digest("one"), 3), "committed");
  });
  expect_one_archive_for_all(crowd, 1);
  expect_bounded(crowd, bound);
}

TEST_F(SingleFlight, WhenTheFirstDiesTheNextGoesAhead) {
  const milliseconds bound = seconds(300);
  AgentCrowd crowd(*process, ns, pod(bound), agents(), bound.count());
  run(crowd, [&](CrowdPod& pod, int number) {
    std::this_thread::sleep_for(kCompile);
    if (number == 1) return crowd.remove(pod);
    EXPECT_EQ(crowd_save(pod, digest("two"), 3), "committed");
  });
  expect_one_archive_for_all(crowd, 2);
  expect_bounded(crowd, bound);
}

TEST_F(SingleFlight, WhenTheFirstNeverSavesTheNextGoesAhead) {
  // Time enough for all to be there before the second one is done.
  const milliseconds bound = seconds(20) + agents() * milliseconds(40);
  AgentCrowd crowd(*process, ns, pod(bound), agents(), bound.count());
  run(crowd, [&](CrowdPod& pod, int number) {
    if (number == 1) return;  // hangs
    std::this_thread::sleep_for(kCompile);
    EXPECT_EQ(crowd_save(pod, digest("three"), 3), "committed");
  });
  expect_one_archive_for_all(crowd, 2);
  expect_bounded(crowd, bound);
}

TEST_F(SingleFlight, WhenNobodySavesNoPodWaitsPastItsBound) {
  const milliseconds bound = seconds(4);
  AgentCrowd crowd(*process, ns, pod(bound), agents(), bound.count());
  run(crowd, [](CrowdPod&, int) {});
  EXPECT_EQ(crowd.outcomes().count("exact"), 0U);
  EXPECT_EQ(crowd.outcomes().count("operator_unreachable"), 0U);
  expect_bounded(crowd, bound);
}

}  // namespace
}  // namespace compilecache::testing
