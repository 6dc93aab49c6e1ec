#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <sstream>

#include "agent/restart_pause.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// `compilecache-supervise`, run as a process: whatever happens to the saver, the process that is
// the container's first stays until SIGTERM, and new entries are saved.

namespace compilecache::agent::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::istringstream list(read_text("/proc/" + id + "/task/" + id + "/children"));
  std::vector<pid_t> children;
  for (pid_t child = 0; list >> child;) children.push_back(child);
  return children;
}

bool is_zombie(pid_t process) {
  const std::string text = read_text("/proc/" + std::to_string(process) + "/stat");
  const size_t end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() && text[end + 2] == 'Z';
}

constexpr unsigned kSomebody = 54'321;  // whom the limit of processes holds, unlike root

class Supervise : public AgentTest {
 protected:
  Supervise() { with_operator(); }

  // The saver's process; 0 where there is none.
  static pid_t work_of(const AgentProcess& supervisor) { return work_of(supervisor.id()); }
  static pid_t work_of(pid_t supervisor) {
    for (const pid_t child : children_of(supervisor)) {
      if (!is_zombie(child)) return child;
    }
    return 0;
  }
  static bool works(const AgentProcess& supervisor) {
    return eventually([&] { return work_of(supervisor) != 0; });
  }
  static bool says(const AgentProcess& process, const std::string& word) {
    return eventually([&] { return process.log().find(word) != std::string::npos; });
  }
  // Whether there was one, and it has ended.
  static bool kill_work(const AgentProcess& supervisor) {
    if (!works(supervisor)) return false;
    const pid_t work = work_of(supervisor);
    return ::kill(work, SIGKILL) == 0 && eventually([&] { return ::kill(work, 0) != 0; });
  }
  static int end(AgentProcess& process, int signal = SIGTERM) {
    process.signal(signal);
    return process.wait();
  }
  // From now on, for it and for what it starts; back to what it may have where it is nothing. As
  // its own user, who may do that without a capability.
  static bool limit(const AgentProcess& process, __rlimit_resource what,
                    std::optional<rlim_t> most) {
    const pid_t helper = ::fork();
    if (helper == 0) {
      if (::geteuid() == 0 && (::setgid(kSomebody) != 0 || ::setuid(kSomebody) != 0)) ::_exit(1);
      rlimit now{};
      if (::prlimit(process.id(), what, nullptr, &now) != 0) ::_exit(1);
      now.rlim_cur = most.value_or(now.rlim_max);
      ::_exit(::prlimit(process.id(), what, &now, nullptr) == 0 ? 0 : 1);
    }
    int status = -1;
    return ::waitpid(helper, &status, 0) == helper && status == 0;
  }
  std::vector<std::string> saved() const {
    return operator_.head().empty() ? std::vector<std::string>{} : paths_of(operator_.head());
  }
};

TEST_F(Supervise, KilledAgainAndAgainTheSaverComesBackAndThePodSeesNothing) {
  AgentProcess supervisor = supervise(saver());
  for (int round = 0; round < 5; ++round) {
    const std::string key = "KEY" + std::to_string(round);
    write("fxgraph/ab/" + key + "/file", key);
    ASSERT_TRUE(kill_work(supervisor)) << supervisor.log();
    ASSERT_TRUE(supervisor.running()) << supervisor.log();
  }
  EXPECT_TRUE(eventually([&] { return saved().size() == 5; })) << supervisor.log();
  EXPECT_THAT(supervisor.log(), HasSubstr("the saver was ended by signal 9"));
  EXPECT_TRUE(supervisor.running());
  EXPECT_EQ(end(supervisor), 0);
}

TEST_F(Supervise, WhereverTheSaverIsThePodsEndMakesItSaveOnceMore) {
  const char* given = std::getenv("CC_TEST_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : std::atoi(given);
  std::mt19937 random(seed);
  std::cout << "CC_TEST_SEED=" << seed << "\n";
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  for (int round = 0; round < 12; ++round) {
    const std::string key = "KEY" + std::to_string(round);
    write("fxgraph/ab/" + key + "/file", key);
    AgentProcess supervisor = supervise(saver());
    ASSERT_TRUE(works(supervisor));  // the program may not even be executed yet
    ::usleep(random() % 100'000);
    // Within the pause that follows a few of these.
    for (int crashes = round % 4; crashes > 0; --crashes) ASSERT_TRUE(kill_work(supervisor));
    EXPECT_EQ(end(supervisor, round % 2 == 0 ? SIGTERM : SIGINT), 0) << supervisor.log();
    EXPECT_EQ(saved().size(), static_cast<size_t>(round) + 1)
        << "round " << round << ": " << supervisor.log();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(Supervise, ASaverThatIsKilledInItsLastSaveDoesNotHoldThePod) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  write("fxgraph/ab/KEY/file", "x");
  AgentProcess supervisor = supervise(saver());
  ASSERT_TRUE(says(supervisor, "watching"));
  std::atomic<bool> killed{false};
  // The operator's thread looks at it while this one waits for it.
  const pid_t id = supervisor.id();
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path == "/v1/saves") killed = ::kill(work_of(id), SIGKILL) == 0;
    return {};
  });
  EXPECT_EQ(end(supervisor), 0) << supervisor.log();
  EXPECT_TRUE(killed);
}

TEST_F(Supervise, NoOtherSignalEndsIt) {
  AgentProcess supervisor = supervise({"/bin/sleep", "600"});
  ASSERT_TRUE(works(supervisor));
  for (const int signal : {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGCHLD, SIGTSTP}) {
    supervisor.signal(signal);
  }
  // It has received them all before it starts the next.
  ASSERT_TRUE(kill_work(supervisor));
  ASSERT_TRUE(works(supervisor)) << supervisor.log();
  EXPECT_TRUE(supervisor.running());
}

TEST_F(Supervise, AProgramThatIsNotThereIsTriedAgainUntilThePodEnds) {
  AgentProcess supervisor = supervise({root_ + "/later"});
  ASSERT_TRUE(says(supervisor, "cannot run " + root_ + "/later: No such file or directory"));
  ASSERT_TRUE(says(supervisor, "started again after 200 ms"));
  EXPECT_TRUE(supervisor.running());
  std::filesystem::create_symlink("/bin/true", root_ + "/later");
  EXPECT_TRUE(says(supervisor, "ended with exit code 0"));
  EXPECT_EQ(end(supervisor), 0);
}

TEST_F(Supervise, WithoutAProcessOrMemoryForTheSaverItWaitsUntilThereIs) {
  AgentProcess supervisor = supervise({"/bin/sleep", "600"}, kSomebody);
  ASSERT_TRUE(works(supervisor));
  ASSERT_TRUE(limit(supervisor, RLIMIT_NPROC, 0));
  ASSERT_TRUE(kill_work(supervisor));
  ASSERT_TRUE(says(supervisor, "no process could be made for the saver: Resource temporarily"))
      << supervisor.log();
  EXPECT_TRUE(supervisor.running());
  ASSERT_TRUE(limit(supervisor, RLIMIT_NPROC, {}));
  ASSERT_TRUE(works(supervisor));

  // More than this process has, less than a program takes.
  ASSERT_TRUE(limit(supervisor, RLIMIT_AS, 2 << 20));
  const auto lines = [&] {
    const std::string log = supervisor.log();
    return std::count(log.begin(), log.end(), '\n');
  };
  const auto before = lines();
  ASSERT_TRUE(kill_work(supervisor));
  ASSERT_TRUE(eventually([&] { return lines() >= before + 3; })) << supervisor.log();
  EXPECT_TRUE(supervisor.running());
  ASSERT_TRUE(limit(supervisor, RLIMIT_AS, {}));
  EXPECT_TRUE(eventually([&] {
    const pid_t work = work_of(supervisor);
    return work != 0 && read_text("/proc/" + std::to_string(work) + "/comm") == "sleep\n";
  })) << supervisor.log();
  EXPECT_EQ(children_of(supervisor.id()).size(), 1U);
}

TEST_F(Supervise, WhatOthersLeaveBehindIsReaped) {
  const std::string script =
      "i=0; while [ $i -lt 300 ]; do (/bin/true &); i=$((i+1)); done; exec /bin/sleep 600";
  AgentProcess supervisor = supervise({"/bin/sh", "-c", script});
  EXPECT_TRUE(eventually([&] {
    const auto children = children_of(supervisor.id());
    return children.size() == 1 &&
           read_text("/proc/" + std::to_string(children[0]) + "/comm") == "sleep\n";
  })) << children_of(supervisor.id()).size();
}

TEST_F(Supervise, ItSaysHowItIsUsed) {
  AgentProcess supervisor = supervise({});
  EXPECT_NE(supervisor.wait(), 0);
  EXPECT_THAT(supervisor.log(),
              HasSubstr("usage: compilecache-supervise [--after-load DIRECTORY] PROGRAM"));
}

TEST(RestartPause, DoublesUpToALimitAndIsShortAgainAfterAGoodRun) {
  std::vector<std::chrono::milliseconds> pauses;
  std::chrono::milliseconds pause{0};
  for (int i = 0; i < 15; ++i) pauses.push_back(pause = restart_pause(pause, 5s));
  EXPECT_EQ(pauses[0], 100ms);
  EXPECT_EQ(pauses[1], 200ms);
  EXPECT_EQ(pauses[9], 51'200ms);
  EXPECT_EQ(pauses[13], 5min);
  EXPECT_EQ(pauses[14], 5min);
  EXPECT_EQ(restart_pause(5min, kGoodRun - 1ms), 5min);
  EXPECT_EQ(restart_pause(5min, kGoodRun), 100ms);
}

}  // namespace
}  // namespace compilecache::agent::testing
