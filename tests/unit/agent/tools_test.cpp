#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/agent/agent_fixture.hpp"

// What people run: help, inspect, verify, and saving and loading by hand.

namespace compilecache::agent::testing {
namespace {

class Tools : public AgentTest {
 protected:
  // Two pods' worth of by-hand use need no GPU.
  void by_hand() {
    config_.key_basis.gpu_resource.clear();
    config_.key_basis.gpu_count = 0;
  }
};

TEST_F(Tools, HelpNamesEveryCommand) {
  EXPECT_EQ(run("--help"), 0);
  for (const char* word : {"load", "save", "sweep", "inspect", "verify", "COMPILECACHE_CONFIG"}) {
    EXPECT_NE(log_.find(word), std::string::npos) << word;
  }
}

TEST_F(Tools, AnUnknownCommandIsRefused) { EXPECT_NE(run("lod"), 0); }

TEST_F(Tools, ByHandFromOneDirectoryToAnother) {
  by_hand();
  write("fxgraph/ab/KEY/file", "an entry");
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(content("fxgraph/ab/KEY/file"), "an entry") << log_;
  write("fxgraph/cd/MORE/file", "more");
  EXPECT_EQ(run("save", {"--once"}), 0) << log_;
  remove_cache();
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["generation"], 2);
  EXPECT_EQ(content("fxgraph/cd/MORE/file"), "more") << log_;
}

TEST_F(Tools, InspectShowsTheArchives) {
  by_hand();
  write("ab/file", "x");
  ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  EXPECT_EQ(run("inspect", {store_, "--json"}), 0);
  const auto shown = nlohmann::json::parse(log_);
  EXPECT_EQ(shown["owner"]["namespace"], "ml");
  ASSERT_EQ(shown["archives"].size(), 1u);
  EXPECT_EQ(shown["archives"][0]["files"], 1);
  EXPECT_EQ(run("inspect", {store_}), 0);
  EXPECT_NE(log_.find("1 files"), std::string::npos) << log_;
}

TEST_F(Tools, VerifyFindsTheFlippedByte) {
  by_hand();
  write("ab/file", "x");
  ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  EXPECT_EQ(run("verify", {store_}), 0) << log_;
  EXPECT_EQ(run("inspect", {store_, "--json"}), 0);
  const std::string digest = nlohmann::json::parse(log_)["archives"][0]["digest"];
  const auto manifest = archive::read_manifest(store_, digest);
  ASSERT_TRUE(manifest);
  flip_a_byte_in(manifest->layers[0].digest);
  EXPECT_EQ(run("verify", {store_}), 1);
  EXPECT_NE(log_.find("CORRUPT"), std::string::npos) << log_;
  EXPECT_NE(log_.find(manifest->layers[0].digest), std::string::npos) << log_;
}

TEST_F(Tools, SaveOnceFailsLoudly) {
  variables_["COMPILECACHE_CONFIG"] = "{}";
  EXPECT_EQ(run("save", {"--once"}), 1);
  EXPECT_NE(log_.find("lacks"), std::string::npos) << log_;
}

}  // namespace
}  // namespace compilecache::agent::testing
