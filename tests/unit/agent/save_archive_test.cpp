#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "api/agent_config.hpp"
#include "archive/layer/seek_table.hpp"
#include "archive/write/write.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "tests/unit/agent/save_fixture.hpp"

// `compilecache-agent save`, run as a process: what is in the archive that it makes.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

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

// Its configuration says nothing of the node's other pods.
TEST_F(Save, APodWithDevicesByClaimsNotesNoProductForTheNode) {
  config_.key_basis.gpu_resource = api::kClaimedDevices;
  config_.key_basis.claims = {"gpu"};
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(store::DirectoryStore(store_).read_index()->entries.size(), 1U);
  EXPECT_FALSE(store::DirectoryStore(store_).node_product("node-1"));
  EXPECT_EQ(end(saver), 0);
}

// Its product is that of a slice, and other pods of the node have others.
TEST_F(Save, APodWithAPartOfAGpuNotesNoProductForTheNode) {
  config_.key_basis.gpu_resource = "nvidia.com/mig-1g.10gb";
  AgentProcess saver = start("save");
  write("fxgraph/ab/KEY/file", "an entry");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(store::DirectoryStore(store_).read_index()->entries.size(), 1U)
      << "which is noted before";
  EXPECT_FALSE(store::DirectoryStore(store_).node_product("node-1"));
  EXPECT_EQ(end(saver), 0);
}

// All ask at once; the operator lets one save at a time. Eight have something that no other has.
TEST_F(Save, SixteenPodsOfTwoGroupsMakeAnArchiveOfEightRanksInEightSaves) {
  constexpr int kRanks = 8;
  std::string large(2'000'000, 'x');
  std::mt19937 random(1);
  for (char& byte : large) byte = static_cast<char>(random());
  operator_.set_head(put_archive({{"torch/AB/base", large}}).manifest, 1);
  std::atomic<int> commits = 0;
  std::atomic<bool> locked = false;
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path == "/v1/saves" && locked.exchange(true)) {
      return json_response({{"decision", "busy"}, {"retry_after_ms", 50}});
    }
    const bool commit = call.path.ends_with("/commit");
    if (commit) ++commits;
    if (commit || call.method == "DELETE") locked = false;
    return std::nullopt;
  });
  std::vector<AgentProcess> savers;
  for (int pod = 0; pod < 2 * kRanks; ++pod) {
    const std::string root = root_ + "/pod-" + std::to_string(pod);
    config_.control_path = root + "/control";
    config_.directories[0].path = root + "/torch";
    const std::string folder = root + "/torch/AB/rank_" + std::to_string(pod % kRanks);
    fs::create_directories(folder);
    std::ofstream(folder + "/model") << "of rank " << pod % kRanks;
    savers.push_back(start("save"));
    // A signal before that ends a process that has not begun.
    ASSERT_TRUE(
        eventually([&] { return savers.back().log().find(" watching ") != std::string::npos; }));
  }
  std::vector<std::string> all{"torch/AB/base"};
  for (int rank = 0; rank < kRanks; ++rank) {
    all.push_back("torch/AB/rank_" + std::to_string(rank) + "/model");
  }
  for (AgentProcess& saver : savers) EXPECT_EQ(end(saver), 0) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), UnorderedElementsAreArray(all));
  EXPECT_EQ(commits, kRanks);
}

// It has them nowhere, and has to write the layers again that hold them.
TEST_F(Save, APodOfOneRankTakesNothingFromTheOthers) {
  config_.directories[0].framework.rank_directories = {"*/rank_*"};
  std::string head;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string name = "rank_" + std::to_string(rank);
    head = put_archive({{"torch/AB/" + name + "/model", "of " + name}}, head).manifest;
  }
  operator_.set_head(head, 4);
  operator_.set_ranks({"torch/AB/rank_1"});
  ASSERT_EQ(run("load"), 0);
  ASSERT_FALSE(has("AB/rank_0/model"));
  write("AB/rank_1/more", "of a request of another length");
  write("AB/rank_2/model", "compiled here, since ranks have moved");
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const auto commit = operator_.calls("POST", "/v1/saves/demo-1.1/commit")[0].body;
  EXPECT_EQ(commit["layers"], 1) << "four were there already";
  EXPECT_THAT(
      paths_of(operator_.head()),
      UnorderedElementsAre("torch/AB/rank_0/model", "torch/AB/rank_1/model", "torch/AB/rank_1/more",
                           "torch/AB/rank_2/model", "torch/AB/rank_3/model"));
  EXPECT_EQ(operator_.calls("POST", "/v1/effect").back().body["rank_directories"],
            (nlohmann::json{"torch/AB/rank_1", "torch/AB/rank_2"}));
  remove_cache();
  std::filesystem::remove_all(control(""));
  operator_.set_ranks({});
  ASSERT_EQ(run("load"), 0);
  EXPECT_EQ(content("AB/rank_0/model"), "of rank_0");
  EXPECT_EQ(content("AB/rank_2/model"), "of rank_2") << "what is held is not packed again";
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
  fs::remove(store::blob_path(store_, lost.layers[0]));
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
  config_.store_mount = store_;
  ASSERT_TRUE(store::DirectoryStore(store_).prepare({"cluster-1", "ml", "uid-1"}, false));
  const auto lost = put_archive({{"torch/fxgraph/ab/ONE/file", "entry one"}});
  operator_.set_head(lost.manifest, 1);
  fs::remove(store::blob_path(store_, lost.layers[0]));
  write("fxgraph/cd/TWO/file", "entry two");
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves", 2)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves")[1].body["missing_digest"], lost.layers[0])
      << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(Save, TheWindowIsThatOfTheSettings) {
  std::string text;
  for (int line = 0; text.size() < 3U << 20; ++line) text += "x = " + std::to_string(line) + "\n";
  const auto frames_of_a_save = [&](uint64_t window) {
    fs::remove_all(root_ + "/alone");
    config_.store_mount = root_ + "/alone";
    config_.compression.window = window;
    config_.operator_address.clear();
    config_.key_basis = {.parts = {"Architecture"}};
    write("ab/text.py", text);
    EXPECT_EQ(run("save", {"--once"}), 0) << log_;
    uint32_t frames = 0;
    for (const auto& blob : fs::directory_iterator(config_.store_mount + "/blobs/sha256")) {
      if (blob.file_size() < 50'000) continue;  // manifest and config
      const std::string layer = read_text(blob.path().string());
      std::memcpy(&frames, layer.data() + layer.size() - archive::kSeekFooterBytes, sizeof(frames));
    }
    return frames;
  };
  EXPECT_EQ(frames_of_a_save(16 << 20), 1U);
  EXPECT_EQ(frames_of_a_save(1 << 20), 4U);
}

// A build tool's notes of them are saved too: it builds nothing again where they are the same.
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
  store::DirectoryStore store(store_);
  const auto written = archive::write_archive(store, std::move(request));
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

// A file that is no entry's is of use as long as it is there: nobody has to have read it.
TEST_F(Save, AfterACompatibleLoadUnreadEntriesAreLeftOut) {
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
  EXPECT_EQ(asked["new_files"], 4);
  EXPECT_EQ(asked["have_digest"], "") << "of its own key it has none";
  EXPECT_THAT(paths_of(operator_.head()),
              UnorderedElementsAre("torch/fxgraph/ab/ONE/file", "torch/ef/cused.py",
                                   "torch/ef/cdead.py", "torch/fxgraph/gh/NEW/file"));
  EXPECT_TRUE(last_effect_is("partial"));
  EXPECT_EQ(end(saver), 0);
}

// Numba's f.nbi says which of f.1.nbc, f.2.nbc is of which types. Two pods add one each, at once.
TEST_F(Save, AnIndexOfOnePodNeverLeadsToTheFilesOfAnother) {
  config_.directories[0].framework.entry_directories.clear();
  config_.directories[0].framework.entry_files = {"**/*.nbc"};
  config_.directories[0].framework.index_files = {"**/*.nbi"};
  const auto first = put_archive({{"torch/m/f.nbi", "int:1"}, {"torch/m/f.1.nbc", "int"}});
  operator_.set_head(first.manifest, 1);
  ASSERT_EQ(run("load"), 0);
  const auto theirs = put_archive({{"torch/m/f.nbi", "int:1 float:2 bool:3"},
                                   {"torch/m/f.2.nbc", "float"},
                                   {"torch/m/f.3.nbc", "bool"}},
                                  first.manifest);
  operator_.set_head(theirs.manifest, 2);
  write("m/f.nbi", "int:1 complex:2");
  write("m/f.2.nbc", "complex");
  ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  remove_cache();
  fs::remove_all(control(""));
  ASSERT_EQ(run("load"), 0);
  EXPECT_EQ(content("m/f.nbi"), "int:1 complex:2");
  EXPECT_EQ(content("m/f.1.nbc"), "int");
  EXPECT_EQ(content("m/f.2.nbc"), "complex");
  EXPECT_FALSE(has("m/f.3.nbc")) << "the next that Numba makes would have this name";
}

// vLLM on CPUs by its default flags, whose artifact no later start can use.
TEST_F(Save, EntriesThatNoPodReadsLeaveTheArchive) {
  operator_.set_head(put_archive({{"torch/fxgraph/ab/USED/file", "used"}}).manifest, 1);
  constexpr int kPods = 40;
  for (int pod = 0; pod < kPods; ++pod) {
    remove_cache();
    fs::remove_all(control(""));
    ASSERT_EQ(run("load"), 0);
    read("fxgraph/ab/USED/file");
    write("fxgraph/zz/POD" + std::to_string(pod) + "/file", "of one pod");
    ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  }
  const auto paths = paths_of(operator_.head());
  EXPECT_LE(paths.size(), 26u);
  EXPECT_THAT(paths, ::testing::Contains("torch/fxgraph/ab/USED/file"));
  EXPECT_THAT(paths, ::testing::Contains("torch/fxgraph/zz/POD39/file"));
  EXPECT_THAT(paths, ::testing::Not(::testing::Contains("torch/fxgraph/zz/POD0/file")));
}

// One that only reads has nothing to save but that.
TEST_F(Save, AnEntryThatOnePodReadsStaysHoweverManyDoNot) {
  operator_.set_head(put_archive({{"torch/fxgraph/ab/RARE/file", "rare"}}).manifest, 1);
  const auto next_pod = [&](const std::string& makes) {
    remove_cache();
    fs::remove_all(control(""));
    ASSERT_EQ(run("load"), 0);
    makes.empty() ? read("fxgraph/ab/RARE/file") : write(makes, "of one pod");
    ASSERT_EQ(run("save", {"--once"}), 0) << log_;
  };
  for (int pod = 0; pod < 40; ++pod) {
    next_pod("fxgraph/zz/POD" + std::to_string(pod) + "/file");
    if (pod % 20 == 10) next_pod("");
  }
  EXPECT_THAT(paths_of(operator_.head()), ::testing::Contains("torch/fxgraph/ab/RARE/file"));
  const size_t commits = operator_.calls("POST", "/v1/saves/").size();
  next_pod("");
  next_pod("");
  EXPECT_LE(operator_.calls("POST", "/v1/saves/").size(), commits + 1)
      << "it is noted once, and then there is nothing new";
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

TEST_F(Save, FilesThatItMayNotReadAreCountedAndTheRestIsSaved) {
  constexpr unsigned kNobody = 65534;
  ASSERT_TRUE(store::DirectoryStore(store_).prepare({"cluster-1", "ml", "uid-1"}, false));
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
