#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "archive/extract.hpp"
#include "archive/index.hpp"
#include "archive/seek_table.hpp"
#include "archive/store.hpp"
#include "archive/write.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// `compilecache-agent save`, run as a process: when it saves and what it tells.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class Save : public AgentTest {
 protected:
  Save() { with_operator(); }

  // A pod that was given an archive with two entries.
  std::string load_archive() {
    const auto archive = put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"},
                                      {"torch/fxgraph/cd/TWO/file", "entry two"},
                                      {"torch/ef/cused.py", "used"},
                                      {"torch/ef/cdead.py", "dead"}});
    operator_.set_head(archive.manifest, 1);
    EXPECT_EQ(run("load"), 0);
    EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
    return archive.manifest;
  }
  bool last_effect_is(const std::string& effect) {
    return eventually([&] {
      const auto reports = operator_.calls("POST", "/v1/effect");
      return !reports.empty() && reports.back().body["effect"] == effect;
    });
  }
  // A file that was written `seconds` ago.
  void make(const std::string& path, int seconds) const {
    const std::string prepared = root_ + "/prepared";
    std::ofstream(prepared) << path;
    fs::last_write_time(prepared, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
    fs::create_directories(fs::path(torch_ + "/" + path).parent_path());
    fs::rename(prepared, torch_ + "/" + path);
  }
  [[nodiscard]] double committed_seconds(const std::string& save) const {
    const auto calls = operator_.calls("POST", "/v1/saves/" + save + "/commit");
    return calls.empty() ? -1 : calls.back().body.value("compile_seconds", -1.0);
  }
  // As an app does.
  [[nodiscard]] nlohmann::json ask_for_a_save() const {
    std::ofstream(control("save")).close();
    EXPECT_TRUE(eventually([&] { return !fs::exists(control("save")); }));
    return nlohmann::json::parse(read_text(control("save.result")), nullptr, false);
  }
  static bool says(const AgentProcess& process, const std::string& words, size_t from = 0) {
    return eventually([&] { return process.log().find(words, from) != std::string::npos; });
  }
  // Whether the saver (with --debug) looks again from now on and sees and decides this.
  static bool sees(const AgentProcess& saver, const std::string& what) {
    return says(saver, "looked " + what, saver.log().size());
  }
  // Nothing to save, and it was still for long enough to be saved.
  static bool has_all_it_wants(const AgentProcess& saver) {
    return sees(saver, "new=no busy=no still=yes save=no");
  }
};

TEST_F(Save, KilledAtAnyMomentNothingIsLostAndTheNextGoesOn) {
  const char* given = std::getenv("CC_TEST_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : std::atoi(given);
  std::mt19937 random(seed);
  std::cout << "CC_TEST_SEED=" << seed << "\n";
  config_.quiet_period_ms = 20;
  for (int i = 0; i < 20; ++i) {
    write("fxgraph/ab/KEY" + std::to_string(i) + "/file", std::string(20'000, 'a' + i));
    const std::string before = operator_.head();
    AgentProcess saver = start("save");
    ::usleep(random() % 400'000);
    saver.kill_all();
    for (const std::string& head : {before, operator_.head()})
      EXPECT_TRUE(head.empty() || archive::verify(store_, head)) << "kill " << i;
    ASSERT_FALSE(HasFailure());
  }
  AgentProcess saver = start("save");
  EXPECT_TRUE(eventually([&] {
    return !operator_.head().empty() && paths_of(operator_.head()).size() == 20;
  })) << saver.log();
  EXPECT_TRUE(archive::verify(store_, operator_.head()));
}

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
  const auto index = archive::read_index(store_);
  ASSERT_EQ(index.entries.size(), 1u);
  EXPECT_EQ(index.entries[0].digest, operator_.head());
  EXPECT_EQ(archive::read_node_product(store_, "node-1").value_or(""), "NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(end(saver), 0);
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
  config_.quiet_period_ms = 5'000;  // the upper bound is beyond all patience
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
  config_.quiet_period_ms = 5'000;  // the upper bound is beyond all patience
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

// The operator has lost it meanwhile, or does not trust it any more.
TEST_F(Save, WhereItsOwnArchiveIsGivenUpAllIsSavedAnew) {
  AgentProcess saver = start("save");
  write("fxgraph/ab/ONE/file", "entry one");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  operator_.set_head("", 1);
  write("fxgraph/cd/TWO/file", "entry two");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body;
  EXPECT_EQ(commit["parent_digest"], "");
  EXPECT_EQ(commit["layers"], 1);
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/ONE/file", "torch/fxgraph/cd/TWO/file"));
  EXPECT_EQ(end(saver), 0);
}

// Its product is that of a slice, and other pods of the node have others.
TEST_F(Save, APodWithAPartOfAGpuNotesNoProductForTheNode) {
  config_.key_basis.gpu_resource = "nvidia.com/mig-1g.10gb";
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(archive::read_index(store_).entries.size(), 1U) << "which is noted before";
  EXPECT_FALSE(archive::read_node_product(store_, "node-1"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, LaterFilesMakeASecondLayerAndNothingIsSavedTwice) {
  AgentProcess saver = start("save", {"--debug"});
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  const std::string first = operator_.head();
  write("fxgraph/cd/MORE/file", "another entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body;
  EXPECT_EQ(commit["parent_digest"], first);
  EXPECT_EQ(commit["layers"], 2);
  EXPECT_TRUE(has_all_it_wants(saver)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 4u);  // two grants, two commits
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 4u);
}

// The saver says what is missing, and the operator gives the head up.
TEST_F(Save, WhereTheArchiveIsLostAllIsSavedAnewAndOnce) {
  const auto lost = put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"}});
  operator_.set_head(lost.manifest, 1);
  fs::remove(archive::blob_path(store_, lost.layers[0]));
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves" || call.body["missing_digest"] != lost.layers[0]) return {};
    operator_.set_head("", 1);
    return {};
  });
  write("fxgraph/ab/ONE/file", "entry one");
  write("fxgraph/cd/TWO/file", "entry two");
  AgentProcess saver = start("save", {"--debug"});
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/ONE/file", "torch/fxgraph/cd/TWO/file"));
  EXPECT_TRUE(has_all_it_wants(saver)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 3u)
      << saver.log();  // two grants, a commit
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, WhichBlobIsMissingIsToldWhateverTheStoreIsCalled) {
  store_ = root_ + "/sha256:" + std::string(64, '0');
  config_.store_path = store_;
  ASSERT_TRUE(archive::prepare_store(store_, {"cluster-1", "ml", "uid-1"}, false));
  const auto lost = put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"}});
  operator_.set_head(lost.manifest, 1);
  fs::remove(archive::blob_path(store_, lost.layers[0]));
  write("fxgraph/cd/TWO/file", "entry two");
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves", 2)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[1].body["missing_digest"], lost.layers[0])
      << saver.log();
  EXPECT_EQ(end(saver), 0);
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

TEST_F(Save, TheEffectFollowsWhatTheAppReadsAndMakes) {
  load_archive();
  AgentProcess saver = start("save");
  read("fxgraph/ab/ONE/file");
  EXPECT_TRUE(last_effect_is("full")) << saver.log();
  write("fxgraph/gh/NEW/file", "new");
  EXPECT_TRUE(last_effect_is("partial")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const auto last = operator_.calls("POST", "/v1/effect").back().body;
  EXPECT_EQ(last["final_report"], true);
  EXPECT_EQ(last["loaded_entries"], 2);
  EXPECT_EQ(last["read_entries"], 1);
  EXPECT_EQ(last["new_entries"], 1);
}

// vLLM's own key, with raw values of the environment: names and keyed digests travel, and the next
// pod's saver names what differs.
TEST_F(Save, WhatDiffersInTheFrameworksKeyIsNamedAndNoValueTravels) {
  config_.directories[0].framework.key_factors = {"**/cache_key_factors.json"};
  AgentProcess first = start("save");
  write("one/cache_key_factors.json",
        R"({"code_hash": "1", "env": {"VLLM_API_KEY": "s3cret", "A": "1"}})");
  write("fxgraph/ab/ONE/file", "entry one");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << first.log();
  EXPECT_EQ(end(first), 0);
  const std::string head = operator_.head();
  EXPECT_THAT(paths_of(head), ElementsAre("torch/fxgraph/ab/ONE/file"));
  const auto manifest = archive::read_manifest(store_, head);
  ASSERT_TRUE(manifest);
  const auto config = archive::read_config(store_, *manifest);
  ASSERT_TRUE(config);
  ASSERT_EQ(config->notes.size(), 1u);
  EXPECT_THAT(config->notes.begin()->second, HasSubstr("env/VLLM_API_KEY"));
  EXPECT_EQ(config->notes.begin()->second.find("s3cret"), std::string::npos);

  remove_cache();
  ASSERT_EQ(run("load"), 0);
  AgentProcess second = start("save");
  write("two/cache_key_factors.json",
        R"({"code_hash": "1", "env": {"VLLM_API_KEY": "s3cret", "A": "2"}})");
  write("fxgraph/gh/OTHER/file", "compiled although something was loaded");
  EXPECT_TRUE(last_effect_is("none")) << second.log();
  EXPECT_EQ(end(second), 0);
  const auto last = operator_.calls("POST", "/v1/effect").back().body;
  EXPECT_EQ(last["differing"], nlohmann::json::array({"A"}));
}

// An archive of a release that packed the file.
TEST_F(Save, WhatDiffersFromAnOldArchiveIsNamed) {
  config_.directories[0].framework.key_factors = {"**/cache_key_factors.json"};
  const auto archive = put_archive(
      {{"torch/fxgraph/ab/ONE/file", "entry one"},
       {"torch/old/cache_key_factors.json", R"({"code_hash": "1", "env": {"A": "secret"}})"}});
  operator_.set_head(archive.manifest, 1);
  ASSERT_EQ(run("load"), 0);
  AgentProcess saver = start("save");
  write("new/cache_key_factors.json", R"({"code_hash": "1", "env": {"A": "other"}})");
  write("fxgraph/gh/OTHER/file", "compiled although something was loaded");
  EXPECT_TRUE(last_effect_is("none")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const auto last = operator_.calls("POST", "/v1/effect").back().body;
  EXPECT_EQ(last["differing"], nlohmann::json::array({"A"}));
  EXPECT_EQ(last["new_names"], nlohmann::json::array({"torch/fxgraph/gh/OTHER"}));
  EXPECT_EQ(last.dump().find("secret"), std::string::npos);
  // And the file leaves the archive with the next save.
  EXPECT_THAT(paths_of(operator_.head()),
              ElementsAre("torch/fxgraph/ab/ONE/file", "torch/fxgraph/gh/OTHER/file"));
}

TEST_F(Save, AMissIsNoneAlsoAfterTheSave) {
  load_archive();
  AgentProcess saver = start("save");
  write("fxgraph/gh/OTHER/file", "compiled although something was loaded");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_TRUE(last_effect_is("none")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/effect").back().body["effect"], "none");
}

TEST_F(Save, PodsThatWaitForItLearnThatItCompilesOn) {
  config_.wait_for_first_ms = 600'000;
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body;
  EXPECT_EQ(commit["complete"], false);
  EXPECT_GE(commit["still_ms"], config_.quiet_period_ms);
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

TEST_F(Save, SigtermSavesWhatIsThereAtOnce) {
  config_.quiet_period_ms = 3'600'000;
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  const auto asked = operator_.calls("POST", "/v1/saves");
  ASSERT_EQ(asked.size(), 2u) << saver.log();
  EXPECT_EQ(asked[0].body["final_save"], true);
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/fxgraph/ab/KEY/file"));
  const auto last = operator_.calls("POST", "/v1/effect").back().body;
  EXPECT_EQ(last["final_report"], true);
}

TEST_F(Save, WithoutTimeForALastSaveItSaysThatSomethingIsLost) {
  config_.quiet_period_ms = 3'600'000;
  config_.at_termination_ms = 900;
  write("fxgraph/ab/KEY/file", "an entry");
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty()) << "it would be cut off";
  EXPECT_THAT(saver.log(), HasSubstr("no time for a last save"));
}

// The pod of a Job, say, which ends when it has finished.
TEST_F(Save, APodThatEndsByItselfSavesFirstAfterAShortSilenceAndThenAsUsual) {
  config_.quiet_period_ms = 3'600'000;
  config_.first_quiet_period_ms = 200;
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

TEST_F(Save, TheWindowIsThatOfTheSettings) {
  std::string text;
  for (int line = 0; text.size() < 3U << 20; ++line) text += "x = " + std::to_string(line) + "\n";
  const auto frames_of_a_save = [&](int64_t window) {
    fs::remove_all(root_ + "/alone");
    config_.store_path = root_ + "/alone";
    config_.compression_window_bytes = window;
    config_.operator_address.clear();
    config_.key_basis = {.parts = {"Architecture"}};
    write("ab/text.py", text);
    EXPECT_EQ(run("save", {"--once"}), 0) << log_;
    uint32_t frames = 0;
    for (const auto& blob : fs::directory_iterator(config_.store_path + "/blobs/sha256")) {
      if (blob.file_size() < 50'000) continue;  // manifest and config
      const std::string layer = read_text(blob.path().string());
      std::memcpy(&frames, layer.data() + layer.size() - archive::kSeekFooterBytes, sizeof(frames));
    }
    return frames;
  };
  EXPECT_EQ(frames_of_a_save(16 << 20), 1U);
  EXPECT_EQ(frames_of_a_save(1 << 20), 4U);
}

TEST_F(Save, KilledAndStartedAgainItGoesOn) {
  load_archive();
  {
    AgentProcess saver = start("save");
    write("fxgraph/gh/NEW/file", "new");
    ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
    saver.signal(SIGKILL);
    EXPECT_EQ(saver.wait(), 128 + SIGKILL);
  }
  AgentProcess again = start("save", {"--debug"});
  EXPECT_TRUE(has_all_it_wants(again)) << again.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 2u) << again.log();
  write("fxgraph/ij/LATER/file", "later");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << again.log();
  EXPECT_THAT(paths_of(operator_.head()),
              ::testing::IsSupersetOf({"torch/fxgraph/ab/ONE/file", "torch/fxgraph/gh/NEW/file",
                                       "torch/fxgraph/ij/LATER/file"}));
  EXPECT_EQ(end(again), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/effect").back().body["loaded_entries"], 2);
}

TEST_F(Save, CompileTimeNeverShrinks) {
  make("ab/first", 250);
  make("ab/last", 50);
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  fs::remove(torch_ + "/ab/last");  // as apps do that clear their cache
  make("ab/other", 150);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_NEAR(committed_seconds("demo-1.1"), 200, 5);
  EXPECT_EQ(committed_seconds("demo-1.2"), 0);
  EXPECT_EQ(end(saver), 0);
}

// For loads that the operator does not answer.
TEST_F(Save, ArchiveAndIndexSayHowLongAllOfItTook) {
  const auto said = [&] {
    const auto manifest = archive::read_manifest(store_, operator_.head());
    EXPECT_TRUE(manifest);
    const auto index = archive::read_index(store_);
    EXPECT_EQ(index.entries.size(), 1u);
    const double seconds = archive::compile_seconds(manifest->annotations);
    EXPECT_EQ(archive::compile_seconds(index.entries.at(0).annotations), seconds);
    return seconds;
  };
  const auto saved_by_a_pod = [&](const std::string& save) {
    AgentProcess saver = start("save");
    ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/" + save + "/commit", 1)) << saver.log();
    EXPECT_EQ(end(saver), 0);
  };
  make("ab/first", 1000);
  make("ab/second", 900);
  saved_by_a_pod("demo-1.1");
  EXPECT_NEAR(said(), 100, 5);
  make("ab/third", 850);
  saved_by_a_pod("demo-1.2");
  EXPECT_NEAR(said(), 150, 5) << "the same pod went on";
  remove_cache();  // another pod, which compiles again what the archive has, and more
  make("ab/first", 1000);
  make("ab/other", 940);
  saved_by_a_pod("demo-1.3");
  EXPECT_NEAR(said(), 150, 5);
}

TEST_F(Save, WhatAnotherPodSavedIsNotCountedAsItsOwnWork) {
  const auto compile = [&] {
    make("ab/first", 1000);
    make("ab/second", 900);
  };
  compile();
  AgentProcess another = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << another.log();
  EXPECT_EQ(end(another), 0);
  remove_cache();
  compile();  // the same once more
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("DELETE", "/v1/saves/demo-1.2", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  make("ab/third", 850);
  AgentProcess again = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.3/commit", 1)) << again.log();
  EXPECT_EQ(end(again), 0);
  const auto manifest = archive::read_manifest(store_, operator_.head());
  ASSERT_TRUE(manifest);
  EXPECT_NEAR(archive::compile_seconds(manifest->annotations), 150, 5);
}

// What a build tool notes of them is saved too: it builds nothing again where they are the same.
TEST_F(Save, WhenFilesWereWrittenIsSavedAndLoadedToTheNanosecond) {
  std::map<std::string, fs::file_time_type> written;
  for (const char* name : {"build/a.o", "build/b.o", "build/.ninja_log"}) {
    write(name, std::string(name) == "build/.ninja_log" ? "log" : "the same content");
    written[name] = fs::last_write_time(torch_ + "/" + name);
  }
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  ASSERT_EQ(status()["outcome"], "SUCCESS") << log_;
  for (const auto& [name, time] : written)
    EXPECT_EQ(fs::last_write_time(torch_ + "/" + name), time) << name;
}

// Whose clock is ahead: what was loaded is from another machine.
TEST_F(Save, ALoadedFileOfTheFutureIsNotTakenForANewOne) {
  const std::string local = root_ + "/ahead";
  std::ofstream(local) << "content";
  fs::last_write_time(local, fs::file_time_type::clock::now() + std::chrono::hours(5));
  archive::WriteRequest request;
  request.files = {{local, "torch/ab/ahead"}};
  const auto written = archive::write_archive(store_, std::move(request));
  ASSERT_TRUE(written);
  operator_.set_head(written->archive.manifest, 1);
  EXPECT_EQ(run("load"), 0);
  ASSERT_EQ(status()["outcome"], "SUCCESS") << log_;
  EXPECT_GT(fs::last_write_time(torch_ + "/ab/ahead"), fs::file_time_type::clock::now());
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[0].body["new_files"], 1);
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, KilledAndStartedAgainItCountsCompileTimeOnce) {
  make("ab/first", 1000);
  make("ab/second", 900);
  {
    AgentProcess saver = start("save");
    ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
    saver.signal(SIGKILL);
    EXPECT_EQ(saver.wait(), 128 + SIGKILL);
  }
  make("ab/third", 850);
  AgentProcess again = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << again.log();
  EXPECT_NEAR(committed_seconds("demo-1.1"), 100, 5);
  EXPECT_NEAR(committed_seconds("demo-1.2"), 50, 5);
  EXPECT_EQ(end(again), 0);
}

TEST_F(Save, TheAppAsksForASaveAndReadsTheResult) {
  config_.quiet_period_ms = 3'600'000;
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
  config_.quiet_period_ms = 3'600'000;
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  std::ofstream(control("save")).close();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  fs::last_write_time(control("save"), fs::file_time_type::clock::now());
  ASSERT_TRUE(eventually([&] { return !fs::exists(control("save")); })) << saver.log();
  EXPECT_EQ(nlohmann::json::parse(read_text(control("save.result")))["outcome"], "SUCCESS");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ARequestThatComesWhileOneIsServedIsServedToo) {
  config_.quiet_period_ms = 3'600'000;
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
  config_.quiet_period_ms = 3'600'000;
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
    config_.save_policy = off.policy;
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
  config_.quiet_period_ms = 3'600'000;
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
  config_.quiet_period_ms = 3'000;  // what is overdue is so beyond all patience
  write("ab/cdone.py", "x");
  write("ab/ctorn.so", "not yet an ELF file");
  AgentProcess saver = start("save", {"--debug"});
  EXPECT_TRUE(says(saver, "looked new=yes busy=yes still=yes save=no")) << saver.log();
  EXPECT_TRUE(says(saver, "looked new=yes busy=no still=yes save=yes")) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, AfterACompatibleLoadOnlyNewAndReadFilesTravel) {
  const std::string other = load_archive();
  auto noted = status();
  noted["match"] = "compatible";
  std::ofstream(control("status.json")) << noted.dump();
  operator_.set_head("", 0);  // this pod's own key has no archive yet
  read("fxgraph/ab/ONE/file");
  read("ef/cused.py");
  write("fxgraph/gh/NEW/file", "new");
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  const auto asked = operator_.calls("POST", "/v1/saves")[0].body;
  EXPECT_EQ(asked["new_files"], 3);
  EXPECT_EQ(asked["have_digest"], "") << "of its own key it has none";
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/ONE/file", "torch/ef/cused.py",
                                   "torch/fxgraph/gh/NEW/file"));
  EXPECT_TRUE(last_effect_is("partial"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ReadOnlyAndNeverSaveNothing) {
  for (const auto& [mode, policy] : {std::pair{api::Mode::kReadOnly, api::SavePolicy::kOnChange},
                                     std::pair{api::Mode::kReadWrite, api::SavePolicy::kNever}}) {
    config_.mode = mode;
    config_.save_policy = policy;
    write("ab/" + std::string(api::to_string(mode)), "x");
    AgentProcess saver = start("save", {"--debug"});
    EXPECT_TRUE(sees(saver, "new=yes busy=no still=yes save=no")) << saver.log();
    EXPECT_EQ(end(saver), 0);
    EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty()) << api::to_string(mode);
  }
}

TEST_F(Save, OnceIsOnce) {
  config_.save_policy = api::SavePolicy::kOnce;
  AgentProcess saver = start("save", {"--debug"});
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  write("ab/two", "x");
  EXPECT_TRUE(sees(saver, "new=yes busy=no still=yes save=no")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 2u);
}

TEST_F(Save, OnceIsNotOverByAnArchiveOfAnotherKey) {
  config_.save_policy = api::SavePolicy::kOnce;
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

TEST_F(Save, RefreshReplacesTheArchiveAndThenExtendsItsOwn) {
  operator_.set_head(put_archive({{"torch/old", "x"}}).manifest, 5);
  config_.mode = api::Mode::kRefresh;
  AgentProcess saver = start("save");
  write("ab/new", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/new"));
  write("ab/later", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/later", "torch/ab/new"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, ALoaderThatMetNoOperatorIsReportedByTheSaver) {
  operator_.script([](const Call&) { return error_response(503, "Unavailable"); });
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["reported"], false);
  operator_.script({});
  const size_t refused = operator_.calls("POST", "/v1/loaded").size();
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/loaded", refused + 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded").back().body["outcome"], "DOES_NOT_EXIST");
  EXPECT_EQ(end(saver), 0);
  AgentProcess again = start("save", {"--debug"});
  EXPECT_TRUE(has_all_it_wants(again)) << again.log();
  EXPECT_EQ(end(again), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/loaded").size(), refused + 1) << "once";
}

TEST_F(Save, BadConfigurationDoesNotEndTheSidecar) {
  variables_["COMPILECACHE_CONFIG"] = "nonsense";
  AgentProcess saver = start("save");
  ASSERT_TRUE(
      eventually([&] { return saver.log().find("nothing will be saved") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  EXPECT_THAT(saver.log(), HasSubstr("the pod ends")) << "it ended before it was told to";
}

TEST_F(Save, FilesThatItMayNotReadAreCountedAndTheRestIsSaved) {
  constexpr unsigned kNobody = 65534;
  ASSERT_TRUE(archive::prepare_store(store_, {"cluster-1", "ml", "uid-1"}, false));
  fs::create_directories(config_.control_path);
  fs::permissions(config_.control_path, fs::perms::all);
  write("ab/open", "x");
  write("ab/secret", "x");
  fs::permissions(torch_ + "/ab/secret", fs::perms::none);
  AgentProcess saver = start("save", {"--debug"}, kNobody);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/open"));
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body["left_out"], 1);
  ASSERT_TRUE(eventually([&] { return saver.log().find("cannot be read") != std::string::npos; }));
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_reason"], "unreadable");
  EXPECT_THAT(report["save_message"], HasSubstr("only user 0 may read them"));
  EXPECT_THAT(report["save_message"], HasSubstr("set spec.save.runAsUser: 0"));
  EXPECT_EQ(report["unreadable_files"], 1);
  EXPECT_EQ(report["unreadable_owner"], 0);
  EXPECT_TRUE(has_all_it_wants(saver)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 2u) << "asks for ever: " << saver.log();
  EXPECT_EQ(end(saver), 0);
}

// One of zeros, say, which packs into next to nothing.
TEST_F(Save, AFileThatNoArchiveCanHoldIsLeftOutWithItsEntryAndTheRestIsSaved) {
  write("ab/good", "x");
  write("fxgraph/ab/KEY/beside", "of no use alone");
  write("fxgraph/ab/KEY/zeros", "");
  fs::resize_file(torch_ + "/fxgraph/ab/KEY/zeros", 190 << 20);
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/good"));
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body["left_out"], 2);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_outcome"], "SUCCESS");
  EXPECT_EQ(report["save_reason"], "file_too_large");
  EXPECT_THAT(report["save_message"],
              HasSubstr("not saved: torch/fxgraph/ab/KEY/zeros of 190Mi packs into less than"));
  EXPECT_THAT(report["save_message"], HasSubstr("(and 1 more"));
  // It is not asked for again until it changes.
  write("ab/later", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[2].body["new_files"], 1);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body["left_out"], 2);
  fs::resize_file(torch_ + "/fxgraph/ab/KEY/zeros", 100);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.3/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()),
              ElementsAre("torch/ab/good", "torch/ab/later", "torch/fxgraph/ab/KEY/beside",
                          "torch/fxgraph/ab/KEY/zeros"));
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.3/commit")[0].body["left_out"], 0);
  EXPECT_EQ(end(saver), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
