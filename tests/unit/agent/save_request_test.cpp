#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "agent/save/save_machine.hpp"
#include "api/agent_config.hpp"
#include "tests/unit/agent/save_fixture.hpp"

// `compilecache-agent save`, run as a process: the application asks for a save.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST_F(Save, TheAppAsksForASaveAndReadsTheResult) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  const auto ask = [&] { return ask_for_a_save(); };
  const auto first = ask();
  EXPECT_EQ(first["outcome"], "SUCCESS");
  EXPECT_EQ(first["manifestDigest"], operator_.head());
  EXPECT_EQ(first["files"], 1);
  const auto second = ask();
  EXPECT_EQ(second["outcome"], "SKIPPED");
  EXPECT_EQ(second["reason"], "unchanged");
  EXPECT_EQ(second["message"], "everything is in the archive already");
  write("fxgraph/ab/KEY/file", "an entry");  // looks changed until it is read
  const auto third = ask();
  EXPECT_EQ(third["outcome"], "SKIPPED");
  EXPECT_EQ(third["message"], "everything is in the archive already");
  EXPECT_EQ(end(saver), 0);
}

// As touch(1) and many programs do: made first, stamped or written a moment later.
TEST_F(Save, ARequestMadeInTwoStepsIsServedOnce) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  // On a busy machine the moment may be longer than one request's: those are two, and tried again.
  bool one = false;
  for (int i = 0; i < 20 && !one; ++i) {
    write("fxgraph/ab/KEY" + std::to_string(i) + "/file", "an entry");
    const auto begun = std::chrono::steady_clock::now();
    std::ofstream(control("save")).close();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code gone;
    fs::last_write_time(control("save"), fs::file_time_type::clock::now(), gone);
    one = std::chrono::steady_clock::now() - begun < saver::kRequestSettles;
    ASSERT_TRUE(eventually([&] { return !fs::exists(control("save")); })) << saver.log();
  }
  ASSERT_TRUE(one) << "the machine is too busy";
  EXPECT_EQ(nlohmann::json::parse(read_text(control("save.result")))["outcome"], "SUCCESS");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ARequestThatComesWhileOneIsServedIsServedToo) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  std::atomic<bool> asked{false};
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves/demo-1.1/commit" || asked.exchange(true)) return {};
    write("fxgraph/cd/MORE/file", "another entry");
    std::ofstream(control("save")).close();
    fs::last_write_time(control("save"),
                        fs::file_time_type::clock::now() + std::chrono::milliseconds(500));
    return {};
  });
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(ask_for_a_save()["outcome"], "SUCCESS");
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/KEY/file", "torch/fxgraph/cd/MORE/file"))
      << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ASaverThatWasKilledMeanwhileStillAnswers) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  std::atomic<bool> asked{false}, killed{false};
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return std::nullopt;
    asked = true;
    eventually([&] { return killed.load(); });
    return std::nullopt;
  });
  {
    AgentProcess saver = start("save");
    write("fxgraph/ab/KEY/file", "an entry");
    ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
    std::ofstream(control("save")).close();
    ASSERT_TRUE(eventually([&] { return asked.load(); })) << saver.log();
    saver.signal(SIGKILL);
    saver.wait();
  }
  EXPECT_FALSE(fs::exists(control("save.result")));
  killed = true;
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves", 1));
  operator_.script({});
  AgentProcess again = start("save");
  ASSERT_TRUE(eventually([&] { return !fs::exists(control("save")); })) << again.log();
  EXPECT_EQ(nlohmann::json::parse(read_text(control("save.result")))["outcome"], "SUCCESS");
  EXPECT_EQ(end(again), 0);
}

TEST_F(Save, ARequestThatCannotBeTakenAwayIsServedOnce) {
  AgentProcess saver = start("save", {"--debug"});
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  fs::create_directory(control("save"));
  ASSERT_TRUE(eventually([&] { return fs::exists(control("save.result")); })) << saver.log();
  EXPECT_TRUE(sees(saver, "new=no busy=no still=yes save=no asked=no")) << saver.log();
  fs::remove(control("save.result"));
  EXPECT_TRUE(sees(saver, "new=no busy=no still=yes save=no asked=no")) << saver.log();
  EXPECT_FALSE(fs::exists(control("save.result"))) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, AskedForWithNothingThereItSaysSo) {
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(ask_for_a_save()["outcome"], "DOES_NOT_EXIST");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, AskedForWhereItIsOffItSaysWhy) {
  struct Case {
    api::Mode mode;
    api::SavePolicy policy;
    const char* message;
  };
  for (const Case& off :
       {Case{api::Mode::kReadOnly, api::SavePolicy::kOnChange, "the pod's mode is ReadOnly"},
        Case{api::Mode::kReadWrite, api::SavePolicy::kNever, "spec.save.policy is Never"}}) {
    config_.mode = off.mode;
    config_.save.policy = off.policy;
    AgentProcess saver = start("save");
    ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
    const auto result = ask_for_a_save();
    EXPECT_EQ(result["outcome"], "SKIPPED");
    EXPECT_EQ(result["reason"], "saving_is_off");
    EXPECT_THAT(result["message"], HasSubstr(off.message));
    EXPECT_EQ(end(saver), 0);
  }
}

TEST_F(Save, AnAppThatAsksIsAnsweredBeforeTheOperatorIsTold) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  std::atomic<bool> answered_first{false};
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path == "/v1/effect") answered_first = fs::exists(control("save.result"));
    return std::nullopt;
  });
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  std::ofstream(control("save")).close();
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_TRUE(answered_first);
  EXPECT_EQ(end(saver), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
