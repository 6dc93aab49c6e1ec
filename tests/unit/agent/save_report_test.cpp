#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/unit/agent/save_fixture.hpp"

// `compilecache-agent save`, run as a process: its reports to the operator of the load, its effect
// and the time that was spent on compiling.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

// Its graph was found and its kernels were not.
TEST_F(Save, WhatWasCompiledBesideEntriesMakesTheEffectPartial) {
  load_archive();
  make("xx/ckernel.main.cpp", 100);
  make("xx/ckernel.main.so", 40);
  AgentProcess saver = start("save");
  read("fxgraph/ab/ONE/file");
  EXPECT_TRUE(last_effect_is("partial")) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const auto last = operator_.calls("POST", "/v1/effect").back().body;
  EXPECT_EQ(last["new_entries"], 0);
  EXPECT_NEAR(last["compile_seconds"].get<double>(), 60, 1);
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
  const auto manifest = archive::read_manifest(store::DirectoryStore(store_), head);
  ASSERT_TRUE(manifest);
  const auto config = archive::read_config(store::DirectoryStore(store_), *manifest);
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
    const auto manifest = archive::read_manifest(store::DirectoryStore(store_), operator_.head());
    EXPECT_TRUE(manifest);
    const auto index = store::DirectoryStore(store_).read_index().value();
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
  const auto manifest = archive::read_manifest(store::DirectoryStore(store_), operator_.head());
  ASSERT_TRUE(manifest);
  EXPECT_NEAR(archive::compile_seconds(manifest->annotations), 150, 5);
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

}  // namespace
}  // namespace compilecache::agent::testing
