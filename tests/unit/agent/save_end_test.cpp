#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "archive/extract/extract.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/unit/agent/save_fixture.hpp"

// `compilecache-agent save`, run as a process: the pod ends, or the saver alone.

namespace compilecache::agent::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(Save, KilledAtAnyMomentNothingIsLostAndTheNextGoesOn) {
  const char* given = std::getenv("CC_TEST_SEED");
  const unsigned seed = given == nullptr ? std::random_device{}() : std::atoi(given);
  std::mt19937 random(seed);
  std::cout << "CC_TEST_SEED=" << seed << "\n";
  config_.save.quiet_period = std::chrono::milliseconds(20);
  for (int i = 0; i < 20; ++i) {
    write("fxgraph/ab/KEY" + std::to_string(i) + "/file", std::string(20'000, 'a' + i));
    const std::string before = operator_.head();
    AgentProcess saver = start("save");
    ::usleep(random() % 400'000);
    saver.kill_all();
    for (const std::string& head : {before, operator_.head()})
      EXPECT_TRUE(head.empty() || archive::verify(store::DirectoryStore(store_), head))
          << "kill " << i;
    ASSERT_FALSE(HasFailure());
  }
  AgentProcess saver = start("save");
  EXPECT_TRUE(eventually([&] {
    return !operator_.head().empty() && paths_of(operator_.head()).size() == 20;
  })) << saver.log();
  EXPECT_TRUE(archive::verify(store::DirectoryStore(store_), operator_.head()));
}

TEST_F(Save, SigtermSavesWhatIsThereAtOnce) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
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
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.save.at_termination = std::chrono::milliseconds(900);
  write("fxgraph/ab/KEY/file", "an entry");
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty()) << "it would be cut off";
  EXPECT_THAT(saver.log(), HasSubstr("no time for a last save"));
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

TEST_F(Save, BadConfigurationDoesNotEndTheSidecar) {
  variables_["COMPILECACHE_CONFIG"] = "nonsense";
  AgentProcess saver = start("save");
  ASSERT_TRUE(
      eventually([&] { return saver.log().find("nothing will be saved") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  EXPECT_THAT(saver.log(), HasSubstr("the pod ends")) << "it ended before it was asked to";
}

}  // namespace
}  // namespace compilecache::agent::testing
