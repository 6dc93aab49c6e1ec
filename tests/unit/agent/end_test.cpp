#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/agent/agent_fixture.hpp"

// How the loader and the saver end: when they are asked to, and when they get nothing they need.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;

class End : public AgentTest {
 protected:
  End() { with_operator(); }
  static bool says(const AgentProcess& process, const std::string& word) {
    return eventually([&] { return process.log().find(word) != std::string::npos; });
  }
};

// Programs started meanwhile get no threads: a stack takes as much as its limit says, which is more
// than there are addresses.
class NoThreads {
 public:
  NoThreads() {
    ::getrlimit(RLIMIT_STACK, &before_);
    rlimit huge = before_;
    huge.rlim_cur = rlim_t{1} << 60;
    set_ = ::setrlimit(RLIMIT_STACK, &huge) == 0;
  }
  ~NoThreads() { ::setrlimit(RLIMIT_STACK, &before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  [[nodiscard]] bool set() const { return set_; }

 private:
  rlimit before_{};
  bool set_ = false;
};

TEST_F(End, WithoutTimeForALastSaveNoneIsBegun) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.save.at_termination = std::chrono::milliseconds(0);
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(says(saver, "watching"));
  EXPECT_EQ(end(saver), 0);
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty()) << saver.log();
  const auto reports = operator_.calls("POST", "/v1/effect");
  ASSERT_FALSE(reports.empty()) << "the loss is reported";
  EXPECT_EQ(reports.back().body["save_outcome"], "ERROR");
  EXPECT_EQ(reports.back().body["save_reason"], "out_of_time");
}

TEST_F(End, WhatOthersHeldUpUntilTheEndIsTold) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return {};
    return json_response({{"decision", "busy"}, {"reason", "locked"}, {"retry_after_ms", 600'000}});
  });
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(says(saver, "watching"));
  EXPECT_EQ(end(saver), 0);
  const auto reports = operator_.calls("POST", "/v1/effect");
  ASSERT_FALSE(reports.empty()) << saver.log();
  EXPECT_EQ(reports[0].body["save_outcome"], "ERROR");
  EXPECT_EQ(reports[0].body["save_reason"], "out_of_time");
  EXPECT_EQ(reports[0].body["save_message"],
            "there is something new that is not saved: another pod is saving: locked");
}

TEST_F(End, AReportThatNobodyTakesDoesNotDelayThePodsEnd) {
  config_.save.at_termination = std::chrono::milliseconds(3'600'000);
  operator_.set_head(put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"}}).manifest, 1);
  ASSERT_EQ(run("load"), 0);
  operator_.script([](const Call&) { return error_response(503, "Unavailable"); });
  AgentProcess saver = start("save");
  ASSERT_TRUE(says(saver, "watching"));
  EXPECT_EQ(end(saver), 0) << saver.log();
  EXPECT_FALSE(operator_.calls("POST", "/v1/effect").empty());
}

TEST_F(End, ALoaderThatIsEndedLeavesWhatItDidNotFill) {
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/load") return {};
    return json_response({{"decision", "wait"}, {"retry_after_ms", 600'000}});
  });
  config_.load.wait_for_first = std::chrono::milliseconds(600'000);
  AgentProcess loader = start("load");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/load", 1));
  write("mine", "x");
  EXPECT_EQ(end(loader), 0);
  EXPECT_EQ(content("mine"), "x") << loader.log();
}

TEST_F(End, ALoaderThatGetsNoThreadLetsThePodStart) {
  operator_.set_head(put_archive({{"torch/one", "x"}}).manifest, 1);
  {
    const NoThreads limit;
    if (!limit.set()) GTEST_SKIP() << "the stack's limit may not be raised (ulimit -Hs)";
    EXPECT_EQ(run("load"), 0);
  }
  EXPECT_NE(log_.find("starting cold"), std::string::npos) << log_;
  EXPECT_FALSE(has("one"));
}

TEST_F(End, ASaverThatGetsNoThreadWaitsForThePodsEnd) {
  AgentProcess saver;
  {
    const NoThreads limit;
    if (!limit.set()) GTEST_SKIP() << "the stack's limit may not be raised (ulimit -Hs)";
    saver = start("save");
  }
  ASSERT_TRUE(says(saver, "nothing will be saved")) << saver.log();
  EXPECT_TRUE(saver.running());
  EXPECT_EQ(end(saver), 0);
}

// Ends the process that does the loader's work; whether there was one.
bool kill_worker(const AgentProcess& loader, int signal) {
  const std::string id = std::to_string(loader.id());
  const pid_t worker = std::atoi(read_text("/proc/" + id + "/task/" + id + "/children").c_str());
  return worker > 0 && ::kill(worker, signal) == 0;
}

TEST_F(End, ALoaderThatCrashesLetsThePodStart) {
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/load") return {};
    return json_response({{"decision", "wait"}, {"retry_after_ms", 600'000}});
  });
  config_.load.wait_for_first = std::chrono::milliseconds(600'000);
  AgentProcess loader = start("load");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/load", 1));
  ASSERT_TRUE(kill_worker(loader, SIGSEGV));
  EXPECT_EQ(loader.wait(), 0) << loader.log();
  EXPECT_EQ(status()["outcome"], "ERROR") << loader.log();
  EXPECT_EQ(status()["reason"], "internal");
  EXPECT_TRUE(fs::is_empty(torch_));
}

TEST_F(End, WhatALoaderThatCrashesHadBegunIsRemoved) {
  // It crashes twice: the first has left its mark, the second is still reporting that.
  operator_.set_head(put_archive({{"torch/one", std::string(3 << 20, 'x')}}).manifest, 1);
  write("half", "x");
  fs::create_directories(config_.control_path);
  std::ofstream(control("loading")).close();
  std::atomic<bool> reports{false}, killed{false};
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/loaded") return {};
    reports = true;
    eventually([&] { return killed.load(); });
    return {};
  });
  AgentProcess loader = start("load");
  ASSERT_TRUE(eventually([&] { return reports.load(); }));
  ASSERT_TRUE(kill_worker(loader, SIGABRT));
  killed = true;
  EXPECT_EQ(loader.wait(), 0) << loader.log();
  EXPECT_EQ(status()["reason"], "loader_killed") << loader.log();
  EXPECT_TRUE(fs::is_empty(torch_));
}

TEST_F(End, AWrongCommandLineOfTheLoaderLetsThePodStart) {
  EXPECT_EQ(run("load", {"--no-such-option"}), 0);
  EXPECT_NE(log_.find("--no-such-option"), std::string::npos) << log_;
  EXPECT_NE(run("save", {"--no-such-option"}), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
