#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "tests/unit/agent/agent_fixture.hpp"

// A container that loads and saves, as its two processes: the first (`compilecache-supervise
// --after-load`) and its postStart hook (`--load`).

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::map<std::string, std::string> kFiles{{"torch/fxgraph/ab/KEY/file", "an entry"},
                                                {"torch/cd/cmodule.py", "print(1)"}};

class LoadHook : public AgentTest {
 protected:
  LoadHook() {
    with_operator();
    fs::create_directory(state_);
    fs::permissions(state_, fs::perms::all);
    std::ofstream(container_log_).close();
  }

  // Has begun to react to signals.
  AgentProcess first_process() {
    AgentProcess first = supervise({"--after-load", state_, agent_program(), "save"});
    EXPECT_TRUE(eventually([&] { return fs::exists(state_ + "/lock"); })) << first.log();
    return first;
  }
  AgentProcess hook(const std::vector<std::string>& loader, int milliseconds = 60'000) {
    std::vector<std::string> command{"--load", state_, std::to_string(milliseconds),
                                     container_log_};
    command.insert(command.end(), loader.begin(), loader.end());
    return supervise(command);
  }
  AgentProcess hook() { return hook({agent_program(), "load"}); }
  std::string log() const { return read_text(container_log_); }
  bool is_over() const { return fs::exists(state_ + "/over"); }
  // A loader that leaves what one leaves that is in the middle, says so, and hangs.
  std::vector<std::string> loader_that_hangs() const {
    return {"/bin/sh", "-c",
            "mkdir -p " + torch_ + "/fxgraph " + config_.control_path + "; echo torn >" + torch_ +
                "/fxgraph/torn; echo >" + config_.control_path + "/loading; touch " + root_ +
                "/hangs; exec sleep 600"};
  }
  bool hangs() const {
    return eventually([&] { return fs::exists(root_ + "/hangs"); });
  }
  // As the program would clean up: the hook runs `PROGRAM ... --cold`.
  std::string wrapper(const std::string& script) const {
    const std::string path = root_ + "/loader";
    std::ofstream(path) << "#!/bin/sh\n" << script;
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
  std::string load_or_hang() const {
    return wrapper("case \"$*\" in *--cold*) exec " + agent_program() + " \"$@\" ;; esac\n" +
                   loader_that_hangs().back() + "\n");
  }

  std::string state_ = root_ + "/state", container_log_ = root_ + "/container.log";
};

TEST_F(LoadHook, LoadsAndOnlyThenTheSaverWatches) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  AgentProcess first = first_process();
  ::usleep(200'000);
  EXPECT_THAT(first.log(), Not(HasSubstr("watching"))) << "before anything was loaded";
  AgentProcess hook_process = hook();
  EXPECT_EQ(hook_process.wait(), 0);
  EXPECT_EQ(content("cd/cmodule.py"), "print(1)");
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log();
  EXPECT_THAT(log(), HasSubstr("found the archive")) << "what the loader says is in the log";
  EXPECT_TRUE(eventually([&] { return first.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(first), 0);
}

TEST_F(LoadHook, BesideAnApplicationNothingIsLoadedWhateverThatDidToTheDirectories) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  EXPECT_EQ(hook().wait(), 0);
  ASSERT_TRUE(has("cd/cmodule.py"));
  remove_cache();  // status.json, too
  EXPECT_EQ(hook().wait(), 0);
  EXPECT_FALSE(fs::exists(torch_)) << log();
  AgentProcess first = first_process();
  EXPECT_TRUE(eventually([&] { return first.log().find("watching") != std::string::npos; }))
      << first.log();
  EXPECT_EQ(end(first), 0);
}

// Killed between making the note and writing it, a hook would leave one that says nothing.
TEST_F(LoadHook, TheNoteThatALoadBeginsIsThereWholeOrNotAtAll) {
  const int events = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(events, state_.c_str(), IN_CREATE | IN_MOVED_TO), 0);
  EXPECT_EQ(hook({"/bin/true"}).wait(), 0);
  std::map<std::string, uint32_t> came;
  alignas(inotify_event) std::array<char, 4096> bytes{};
  const ssize_t count = ::read(events, bytes.data(), bytes.size());
  for (ssize_t at = 0; at < count;) {
    const auto* event = reinterpret_cast<const inotify_event*>(&bytes.at(at));
    came[event->name] |= event->mask;
    at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
  }
  ::close(events);
  EXPECT_EQ(came["loading"], IN_MOVED_TO);
}

TEST_F(LoadHook, AfterAPowerFailureItLoadsAgain) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  std::ofstream(state_ + "/over") << "of another boot\n";
  EXPECT_EQ(hook().wait(), 0);
  EXPECT_TRUE(has("cd/cmodule.py")) << log();
}

TEST_F(LoadHook, ALoaderThatHangsIsEndedInTimeAndWhatItLeftIsGone) {
  EXPECT_EQ(hook({load_or_hang(), "load"}, 500).wait(), 0);
  EXPECT_FALSE(fs::exists(torch_ + "/fxgraph/torn")) << log();
  EXPECT_EQ(status()["reason"], "loader_killed") << log();
  EXPECT_TRUE(is_over());
  EXPECT_THAT(log(), HasSubstr("not done in time"));
}

TEST_F(LoadHook, ALoaderThatCannotBeRunOrFailsIsNoFailureOfTheHook) {
  EXPECT_EQ(hook({"/nonexistent/loader", "load"}).wait(), 0);
  EXPECT_THAT(log(), HasSubstr("cannot run /nonexistent/loader"));
  EXPECT_TRUE(is_over());
  fs::remove(state_ + "/over");
  EXPECT_EQ(hook({"/bin/false", "load"}).wait(), 0);
  EXPECT_TRUE(is_over());
}

TEST_F(LoadHook, WithoutAPlaceForItsNoteItLoadsNothing) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  fs::remove_all(state_);
  EXPECT_EQ(hook().wait(), 0);
  EXPECT_FALSE(fs::exists(torch_)) << log();
  EXPECT_THAT(log(), HasSubstr("starting cold"));
}

TEST_F(LoadHook, AWrongCommandLineIsNoFailure) {
  EXPECT_EQ(supervise({"--load"}).wait(), 0);
  EXPECT_EQ(supervise({"--load", state_, "many", container_log_, "/bin/true"}).wait(), 0);
}

// With the kubelet that waited for it, say: then nothing keeps the application from being started.
TEST_F(LoadHook, WhereTheHookIsKilledTheFirstProcessRemovesWhatWasBegun) {
  AgentProcess first = first_process();
  AgentProcess killed = hook(loader_that_hangs());
  ASSERT_TRUE(hangs());
  EXPECT_THAT(first.log(), Not(HasSubstr("watching")));
  killed.signal(SIGKILL);
  killed.wait();
  EXPECT_TRUE(eventually([&] { return is_over(); })) << first.log();
  EXPECT_FALSE(fs::exists(torch_ + "/fxgraph/torn")) << first.log();
  EXPECT_EQ(status()["reason"], "loader_killed");
  EXPECT_TRUE(eventually([&] { return first.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(first), 0);
}

TEST_F(LoadHook, WhereTheWholeContainerIsKilledTheNextOneStartsCold) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  AgentProcess killed = hook(loader_that_hangs());
  ASSERT_TRUE(hangs());
  killed.signal(SIGKILL);
  killed.wait();
  AgentProcess first = first_process();  // either may clean up
  EXPECT_EQ(hook().wait(), 0);
  EXPECT_TRUE(is_over());
  EXPECT_FALSE(has("fxgraph/torn")) << log() << first.log();
  EXPECT_FALSE(has("cd/cmodule.py")) << log() << first.log();
  EXPECT_EQ(end(first), 0);
}

// Killed before it had found an archive, so that only the note tells of it.
TEST_F(LoadHook, AHookAfterOneThatWasKilledLoadsNothing) {
  operator_.set_head(put_archive(kFiles).manifest, 4);
  AgentProcess killed = hook({"/bin/sh", "-c", "touch " + root_ + "/hangs; exec sleep 600"});
  ASSERT_TRUE(hangs());
  killed.signal(SIGKILL);
  killed.wait();
  EXPECT_EQ(hook().wait(), 0);
  EXPECT_TRUE(is_over());
  EXPECT_FALSE(has("cd/cmodule.py")) << log();
  EXPECT_EQ(status()["reason"], "loader_killed") << log();
}

TEST_F(LoadHook, ThePodsEndDoesNotWaitForALoad) {
  AgentProcess first = first_process();
  AgentProcess loads = hook(loader_that_hangs());
  ASSERT_TRUE(hangs());
  EXPECT_EQ(end(first), 0);
  EXPECT_THAT(first.log(), Not(HasSubstr("watching")));
  loads.signal(SIGKILL);
  loads.wait();
}

TEST_F(LoadHook, KilledAnywhereItLeavesAllOrNothing) {
  const char* given = std::getenv("CC_TEST_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : std::atoi(given);
  std::mt19937 random(seed);
  std::cout << "CC_TEST_SEED=" << seed << "\n";
  operator_.set_head(put_archive(kFiles).manifest, 4);
  for (int round = 0; round < 12; ++round) {
    remove_cache();
    fs::remove_all(state_);
    fs::create_directory(state_);
    AgentProcess first = first_process();
    AgentProcess killed = hook();
    ::usleep(random() % 60'000);
    killed.signal(SIGKILL);
    killed.wait();
    // Where it came before the hook had begun anything, nothing was loaded and none is under way.
    if (fs::exists(state_ + "/loading") || is_over()) {
      ASSERT_TRUE(eventually([&] { return is_over(); })) << first.log();
    }
    const bool all = has("fxgraph/ab/KEY/file") && has("cd/cmodule.py");
    const bool none = !has("fxgraph/ab/KEY/file") && !has("cd/cmodule.py");
    EXPECT_TRUE(all || none) << "round " << round << first.log() << log();
    EXPECT_EQ(end(first), 0);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace compilecache::agent::testing
