#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "archive/format.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/support/process.hpp"
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
  for (const char* word :
       {"load", "save", "sweep", "inspect", "verify", "export", "import", "COMPILECACHE_CONFIG"}) {
    EXPECT_NE(log_.find(word), std::string::npos) << word;
  }
  for (const char* command : {"inspect", "verify", "export", "import"}) {
    EXPECT_EQ(run(command, {"--help"}), 0);
    EXPECT_NE(log_.find("Examples:\n  "), std::string::npos) << log_;
    EXPECT_NE(log_.find(std::string("compilecache-agent ") + command), std::string::npos) << log_;
    EXPECT_NE(log_.find("--json"), std::string::npos) << log_;
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

TEST_F(Tools, SaversOfOneKeyByHandLoseNothingOfEachOther) {
  by_hand();
  const auto in_pod = [&](int pod) {
    const std::string folder = root_ + "/pod-" + std::to_string(pod);
    torch_ = folder + "/torch";
    config_.directories[0].path = torch_;
    config_.control_path = folder + "/control";
  };
  const auto entry = [](int pod) { return "fxgraph/ab/KEY" + std::to_string(pod) + "/file"; };
  constexpr int kPods = 6;
  std::vector<AgentProcess> savers;
  for (int pod = 0; pod < kPods; ++pod) {
    in_pod(pod);
    write(entry(pod), "of pod " + std::to_string(pod));
    savers.push_back(start("save", {"--once"}));
  }
  for (AgentProcess& saver : savers) EXPECT_EQ(saver.wait(), 0) << saver.log();
  in_pod(kPods);
  EXPECT_EQ(run("load"), 0) << log_;
  for (int pod = 0; pod < kPods; ++pod)
    EXPECT_EQ(content(entry(pod)), "of pod " + std::to_string(pod)) << pod << log_;
}

TEST_F(Tools, AFileInTheMakingIsWaitedForByHandToo) {
  by_hand();
  config_.save.quiet_period = std::chrono::milliseconds(2000);
  std::string whole;
  const auto write_more = [&] {
    whole += "a line of what is compiled\n";
    write("fxgraph/ab/KEY/file", whole);
  };
  write_more();
  AgentProcess saver = start("save", {"--once"});
  for (int lines = 0; lines < 40; ++lines) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    write_more();
  }
  EXPECT_EQ(saver.wait(), 0) << saver.log();
  remove_cache();
  EXPECT_EQ(run("load"), 0) << log_;
  EXPECT_EQ(content("fxgraph/ab/KEY/file"), whole);
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

TEST_F(Tools, InspectFailsWhereAnArchiveCannotBeRead) {
  const auto info = put_archive({{"torch/a", "x"}});
  ASSERT_TRUE(store::DirectoryStore(store_).update_index(
      {info.manifest, info.manifest_bytes, {{archive::kAnnotationName, "one"}}}));
  EXPECT_EQ(run("inspect", {store_}), 0) << log_;
  std::filesystem::remove(store::blob_path(store_, info.manifest));
  EXPECT_EQ(run("inspect", {store_}), 1) << log_;
  EXPECT_EQ(run("inspect", {store_, "--json"}), 1) << log_;
}

TEST_F(Tools, NamesOfStrangersDoNotReachTheTerminal) {
  const auto info = put_archive({{"torch/a", "x"}});
  ASSERT_TRUE(store::DirectoryStore(store_).update_index(
      {info.manifest, info.manifest_bytes, {{archive::kAnnotationName, "\x1B[2Jone"}}}));
  for (const char* command : {"inspect", "verify"}) {
    EXPECT_EQ(run(command, {store_}), 0) << log_;
    EXPECT_NE(log_.find("?[2Jone"), std::string::npos) << log_;
    EXPECT_EQ(log_.find('\x1B'), std::string::npos) << log_;
  }
}

TEST_F(Tools, APathThatIsNotUtf8IsToldAsJson) {
  const std::string odd = root_ + "/odd\xFF";
  EXPECT_EQ(run("inspect", {odd, "--json"}), 1);
  EXPECT_NE(log_.find("\"problems\""), std::string::npos) << log_;
}

TEST_F(Tools, VerifyFindsTheFlippedByte) {
  by_hand();
  write("ab/file", "x");
  ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  EXPECT_EQ(run("verify", {store_}), 0) << log_;
  EXPECT_EQ(run("inspect", {store_, "--json"}), 0);
  const std::string digest = nlohmann::json::parse(log_)["archives"][0]["digest"];
  const auto manifest = archive::read_manifest(store::DirectoryStore(store_), digest);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(run("verify", {store_, digest, "nobody"}), 1) << "one of them is not there";
  EXPECT_NE(log_.find("whole   " + digest), std::string::npos) << log_;
  EXPECT_NE(log_.find("holds no archive nobody"), std::string::npos) << log_;
  flip_a_byte_in(manifest->layers[0].digest);
  EXPECT_EQ(run("verify", {store_}), 1);
  EXPECT_NE(log_.find("CORRUPT"), std::string::npos) << log_;
  EXPECT_NE(log_.find(manifest->layers[0].digest), std::string::npos) << log_;
}

TEST_F(Tools, InspectCountsWhatArchivesShare) {
  const auto first = put_archive({{"torch/a", std::string(5000, 'a')}, {"torch/b", "b"}});
  const auto second = put_archive({{"torch/b", "changed"}}, first.manifest);
  put_archive({{"torch/left", "no archive in the index needs this"}});
  const auto index = [&](const char* name, const archive::ArchiveInfo& info, const char* product) {
    ASSERT_TRUE(store::DirectoryStore(store_).update_index(
        {info.manifest,
         info.manifest_bytes,
         {{archive::kAnnotationName, name},
          {archive::kAnnotationGeneration, "1"},
          {std::string(archive::kAnnotationKeyPrefix) + "GPUProduct", product}}}));
  };
  index("one", first, "H100");
  index("two", second, "H100");
  ASSERT_EQ(run("inspect", {store_, "--json"}), 0) << log_;
  const auto shown = nlohmann::json::parse(log_);
  const uint64_t layer = std::filesystem::file_size(store::blob_path(store_, first.layers[0]));
  EXPECT_EQ(shown["sharedBytes"], layer);
  EXPECT_EQ(shown["storedBytes"], first.compressed_bytes + second.compressed_bytes - layer);
  EXPECT_GT(shown["unreferencedBytes"], 0);
  EXPECT_EQ(shown["products"]["H100"]["archives"], 2);
  EXPECT_EQ(shown["archives"][1]["layers"].size(), 2u);
  EXPECT_EQ(shown["archives"][1]["layers"][0]["contentBytes"], 5001);
  EXPECT_EQ(shown["archives"][1]["layers"][0]["usedBytes"], 5000);
  ASSERT_EQ(run("inspect", {store_}), 0);
  for (const char* word : {"H100", "one", "two", "layer sha256:", "2 archives"})
    EXPECT_NE(log_.find(word), std::string::npos) << word << "\n" << log_;
}

TEST_F(Tools, WhatIsNoStoreIsSaid) {
  EXPECT_EQ(run("inspect", {root_ + "/nowhere"}), 1);
  EXPECT_NE(log_.find("nowhere"), std::string::npos) << log_;
  EXPECT_EQ(run("verify", {root_ + "/nowhere"}), 1);
  EXPECT_EQ(run("verify", {store_}), 0) << "an empty store is whole";
  EXPECT_EQ(run("verify", {store_, "nobody"}), 1);
  EXPECT_NE(log_.find("holds no archive nobody"), std::string::npos) << log_;
  EXPECT_EQ(run("export", {store_, "nobody", root_ + "/x.tar"}), 1);
  EXPECT_NE(log_.find("nobody"), std::string::npos) << log_;
  EXPECT_EQ(run("import", {root_ + "/cache", root_ + "/token"}), 1);
}

TEST_F(Tools, ExportedAndImportedAnArchiveIsLoadedElsewhere) {
  by_hand();
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  ASSERT_EQ(run("inspect", {store_, "--json"}), 0);
  const auto saved = nlohmann::json::parse(log_)["archives"][0];
  const std::string file = root_ + "/archive.tar";
  ASSERT_EQ(run("export", {store_, saved["name"], file, "--json"}), 0) << log_;
  const auto exported = nlohmann::json::parse(log_);
  EXPECT_EQ(exported["digest"], saved["digest"]);
  EXPECT_EQ(exported["bytes"], std::filesystem::file_size(file));
  EXPECT_EQ(run("export", {store_, saved["name"], file}), 1) << "nothing is overwritten";

  const std::string other = root_ + "/other";
  ASSERT_EQ(run("import", {other, file, "--json"}), 0) << log_;
  EXPECT_EQ(nlohmann::json::parse(log_)["digest"], saved["digest"]);
  ASSERT_EQ(run("import", {other, file}), 0) << log_;
  EXPECT_NE(log_.find("already there"), std::string::npos) << log_;
  ASSERT_EQ(run("verify", {other, saved["name"]}), 0) << log_;
  config_.store_mount = other;
  remove_cache();
  ASSERT_EQ(run("load"), 0);
  EXPECT_EQ(content("fxgraph/ab/KEY/file"), "an entry") << log_;
}

TEST_F(Tools, AnArchiveGoesThroughAPipe) {
  const auto archive = put_archive({{"torch/a", "a"}, {"torch/b", "b"}});
  const std::string other = root_ + "/other", agent = agent_program();
  const auto pipe = [&](const std::string& name, const std::string& between) {
    return ::compilecache::testing::run_process(
        {"bash", "-c",
         "set -o pipefail; " + agent + " export " + store_ + " " + name + " -" + between + " | " +
             agent + " import " + other + " - --name piped --json"});
  };
  const auto cut = pipe(archive.manifest, " | head -c 2000");
  EXPECT_NE(cut.exit_code, 0);
  EXPECT_NE(run("verify", {other, "piped"}), 0) << "half an archive is none";
  const auto nobody = pipe("nobody", "");
  EXPECT_NE(nobody.exit_code, 0);
  EXPECT_NE(nobody.err.find("looking for archive nobody"), std::string::npos) << nobody.err;

  const auto piped = pipe(archive.manifest, "");
  ASSERT_EQ(piped.exit_code, 0) << piped.err;
  EXPECT_EQ(nlohmann::json::parse(piped.out)["digest"], archive.manifest) << piped.out;
  EXPECT_EQ(run("verify", {other, "piped"}), 0) << log_;
  EXPECT_EQ(run("export", {store_, archive.manifest, "-", "--image"}), 1);
}

TEST_F(Tools, AnImageIsExportedByDigest) {
  const auto archive = put_archive({{"torch/a", "a"}});
  const std::string file = root_ + "/image.tar";
  ASSERT_EQ(run("export", {"--image", store_, archive.manifest, file, "--json"}), 0) << log_;
  const auto exported = nlohmann::json::parse(log_);
  EXPECT_EQ(exported["archive"], archive.manifest);
  EXPECT_NE(exported["digest"], archive.manifest);
  EXPECT_EQ(run("import", {root_ + "/other", file}), 1);
  EXPECT_NE(log_.find("artifactType"), std::string::npos) << log_;
}

TEST_F(Tools, SaveOnceFailsLoudly) {
  variables_["COMPILECACHE_CONFIG"] = "{}";
  EXPECT_EQ(run("save", {"--once"}), 1);
  EXPECT_NE(log_.find("lacks"), std::string::npos) << log_;
}

}  // namespace
}  // namespace compilecache::agent::testing
