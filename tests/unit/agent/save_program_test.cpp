#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "api/agent_config.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/unit/agent/save_fixture.hpp"

// `compilecache-agent save`, run as a process: when it saves.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST_F(Save, WhatIsNewIsSavedWhenItHasBeenStill) {
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  write("cd/cmodule.py", "print(1)");
  write("locks/a.lock", "");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/KEY/file", "torch/cd/cmodule.py"));
  const auto commits = operator_.calls("POST", "/v1/saves/demo-1.1/commit");
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].body["files"], 2);
  EXPECT_EQ(commits[0].body["fence"], 1);
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_outcome"], "SUCCESS");
  EXPECT_EQ(report["effect"], "");  // nothing was loaded
  // For loads without the operator.
  const auto index = store::DirectoryStore(store_).read_index().value();
  ASSERT_EQ(index.entries.size(), 1u);
  EXPECT_EQ(index.entries[0].digest, operator_.head());
  EXPECT_EQ(store::DirectoryStore(store_).node_product("node-1").value_or(""),
            "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, WhatEveryCpuCanLoadIsSavedForAll) {
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "async_compile.triton('kernel', ...)");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[0].body["cpu"], "any");
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body["cpu"], "any");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, CodeForTheCpuIsSavedForItsKindAlone) {
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  write("fxgraph/cd/KEY/file", "kernel = async_compile.cpp_pybinding([], ");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[0].body["cpu"], "any");
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body["cpu"], host_cpu());
  EXPECT_EQ(end(saver), 0);
  const auto manifest = archive::read_manifest(store::DirectoryStore(store_), operator_.head());
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->annotations.at("dev.compilecache.key.CPU"), host_cpu());
}

TEST_F(Save, APodThatCompilesForItsCpuSavesForItsKind) {
  config_.key_basis.gpu_resource.clear();
  config_.cpu_variables = {"ATEN_CPU_CAPABILITY=avx2"};
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "what nobody can look into");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves", 1)) << saver.log();
  const std::string cpu = operator_.calls("POST", "/v1/saves")[0].body["cpu"];
  EXPECT_EQ(cpu, host_cpu());
  EXPECT_NE(cpu.find("-as-avx2-"), std::string::npos) << cpu;
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, CodeForACpuThatNobodyKnowsIsNotSaved) {
  config_.key_basis.gpu_resource.clear();
  config_.cpu_variables = {"ATEN_CPU_CAPABILITY=?"};
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"], "cpu_unknown");
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty());
  EXPECT_EQ(end(saver), 0);
}

// An operator of 0.2 grants one archive for hosts of all kinds.
TEST_F(Save, OnTopOfWhatNobodyKnowsNothingIsClaimed) {
  archive_cpu_.clear();
  const auto parent = put_archive({{"torch/fxgraph/ab/OTHER/file", "another pod's"}}).manifest;
  operator_.set_head(parent, 1);
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return std::nullopt;
    return json_response({{"decision", "granted"},
                          {"id", "demo-1.0"},
                          {"fence", 0},
                          {"lock_timeout_ms", 30'000},
                          {"archive", "demo-1"},
                          {"key", {{"Image", "app:1"}}},
                          {"generation", 2},
                          {"parent_digest", parent}});
  });
  AgentProcess saver = start("save");
  write("fxgraph/cd/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.0/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const auto manifest = archive::read_manifest(store::DirectoryStore(store_), operator_.head());
  ASSERT_TRUE(manifest);
  EXPECT_FALSE(manifest->annotations.contains("dev.compilecache.key.CPU"));
}

// Touches a file until it goes.
class Restless {
 public:
  explicit Restless(std::string path)
      : thread_([this, path = std::move(path)] {
          while (!over_) {
            std::ofstream(path) << ++count_;
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
        }) {}
  ~Restless() {
    over_ = true;
    thread_.join();
  }
  Restless(const Restless&) = delete;
  Restless& operator=(const Restless&) = delete;

 private:
  std::atomic<bool> over_{false};
  int count_ = 0;
  std::thread thread_;
};

TEST_F(Save, ALockThatIsTouchedAllTheTimeHoldsNoSaveUp) {
  config_.save.quiet_period =
      std::chrono::milliseconds(5'000);  // the upper bound is beyond all patience
  write("locks/a.lock", "");
  write("fxgraph/ab/KEY/file", "an entry");
  const Restless lock(torch_ + "/locks/a.lock");
  AgentProcess saver = start("save");
  EXPECT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
}

TEST_F(Save, WhatIsNeverStillIsSavedWithoutWhatKeepsChanging) {
  write("fxgraph/ab/KEY/file", "an entry");
  const Restless file(torch_ + "/log");
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return !operator_.head().empty(); })) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ::testing::Contains("torch/fxgraph/ab/KEY/file"));
}

// Its clock was set back, or the app has given a file a time to come.
TEST_F(Save, AChangeInTheFutureHoldsNoSaveUp) {
  config_.save.quiet_period =
      std::chrono::milliseconds(5'000);  // the upper bound is beyond all patience
  write("fxgraph/ab/KEY/file", "an entry");
  fs::last_write_time(torch_ + "/fxgraph/ab/KEY/file",
                      fs::file_time_type::clock::now() + std::chrono::hours(5));
  AgentProcess saver = start("save");
  EXPECT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
}

TEST_F(Save, WhatIsWrittenWhileASaveIsMadeIsSavedNext) {
  operator_.script([this](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves/demo-1.1/commit") return {};
    write("ab/one", "after");                                     // what was packed is "until"
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that its time is before now
    return {};
  });
  write("ab/one", "until");
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  remove_cache();
  ASSERT_EQ(run("load"), 0);
  EXPECT_EQ(content("ab/one"), "after") << log_;
}

TEST_F(Save, WithNothingNewNothingIsAsked) {
  load_archive();
  AgentProcess saver = start("save", {"--debug"});
  EXPECT_TRUE(has_all_it_wants(saver)) << saver.log();
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty());
  EXPECT_TRUE(operator_.calls("POST", "/v1/effect").empty());
  EXPECT_EQ(end(saver), 0);
  const auto reports = operator_.calls("POST", "/v1/effect");
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].body["effect"], "unused");
  EXPECT_EQ(reports[0].body["final_report"], true);
}

TEST_F(Save, PodsThatWaitForItLearnThatItCompilesOn) {
  config_.load.wait_for_first = std::chrono::milliseconds(600'000);
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body;
  EXPECT_EQ(commit["complete"], false);
  EXPECT_GE(commit["still_ms"], config_.save.quiet_period.count());
  EXPECT_GT(commit["notices_within_ms"], 0);
  const auto told = [&] {
    const auto reports = operator_.calls("POST", "/v1/effect");
    return std::count_if(reports.begin(), reports.end(),
                         [](const Call& report) { return report.body.value("compiling", false); });
  };
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(told(), 0) << "nobody thinks that it has compiled all";
  write("fxgraph/cd/MORE/file", "another entry");
  EXPECT_TRUE(eventually([&] { return told() == 1; })) << saver.log();
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  ASSERT_TRUE(eventually([&] {
    return operator_.calls("POST", "/v1/effect").back().body["save_outcome"] == "SUCCESS";
  })) << saver.log();
  write("fxgraph/ef/THIRD/file", "a third entry");
  EXPECT_TRUE(eventually([&] { return told() == 2; })) << "after each save: " << saver.log();
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.3/commit", 1)) << saver.log();
  write("fxgraph/gh/LAST/file", "a fourth entry");
  EXPECT_EQ(ask_for_a_save()["outcome"], "SUCCESS") << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.4/commit")[0].body["complete"], true);
}

// The pod of a Job, say, which ends when it has finished.
TEST_F(Save, APodThatEndsByItselfSavesFirstAfterAShortSilenceAndThenAsUsual) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.first_quiet_period = std::chrono::milliseconds(200);
  write("fxgraph/ab/KEY/file", "an entry");
  AgentProcess saver = start("save", {"--debug"});
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/fxgraph/ab/KEY/file"));
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.1/commit").at(0).body;
  EXPECT_GE(commit["notices_within_ms"], 15'000) << "from now on it looks as rarely as others";
  saver.signal(SIGKILL);
  saver.wait();
  write("fxgraph/cd/MORE/file", "another entry");
  AgentProcess again = start("save", {"--debug"});
  EXPECT_TRUE(sees(again, "new=yes busy=no still=no save=no")) << again.log();
  EXPECT_EQ(end(again), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").at(2).body["final_save"], true) << again.log();
}

TEST_F(Save, WhatIsUnfinishedWaits) {
  AgentProcess saver = start("save");
  write("ab/cdone.py", "x");
  write("ab/ctorn.so", "not yet an ELF file");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/cdone.py"));
  fs::copy_file("/proc/self/exe", torch_ + "/ab/ctorn.so", fs::copy_options::overwrite_existing);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/cdone.py", "torch/ab/ctorn.so"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, WhatIsUnfinishedHoldsASaveUpForAWhile) {
  config_.save.quiet_period =
      std::chrono::milliseconds(3'000);  // what is overdue is so beyond all patience
  write("ab/cdone.py", "x");
  write("ab/ctorn.so", "not yet an ELF file");
  AgentProcess saver = start("save", {"--debug"});
  EXPECT_TRUE(says(saver, "looked new=yes busy=yes still=yes save=no")) << saver.log();
  EXPECT_TRUE(says(saver, "looked new=yes busy=no still=yes save=yes")) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ReadOnlyAndNeverSaveNothing) {
  for (const auto& [mode, policy] : {std::pair{api::Mode::kReadOnly, api::SavePolicy::kOnChange},
                                     std::pair{api::Mode::kReadWrite, api::SavePolicy::kNever}}) {
    config_.mode = mode;
    config_.save.policy = policy;
    write("ab/" + std::string(api::to_string(mode)), "x");
    AgentProcess saver = start("save", {"--debug"});
    EXPECT_TRUE(sees(saver, "new=yes busy=no still=yes save=no")) << saver.log();
    EXPECT_EQ(end(saver), 0);
    EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty()) << api::to_string(mode);
  }
}

TEST_F(Save, OnceIsOnce) {
  config_.save.policy = api::SavePolicy::kOnce;
  AgentProcess saver = start("save", {"--debug"});
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  write("ab/two", "x");
  EXPECT_TRUE(sees(saver, "new=yes busy=no still=yes save=no")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 2u);
}

TEST_F(Save, OnceIsNotOverByAnArchiveOfAnotherKey) {
  config_.save.policy = api::SavePolicy::kOnce;
  load_archive();
  auto noted = status();
  noted["match"] = "compatible";
  std::ofstream(control("status.json")) << noted.dump();
  operator_.set_head("", 0);  // this pod's own key has no archive yet
  write("fxgraph/gh/NEW/file", "new");
  AgentProcess saver = start("save");
  EXPECT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
