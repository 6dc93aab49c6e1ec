#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "archive/format.hpp"
#include "store/directory/layout.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// Savers that meet others: busy locks, lost locks, heads that moved, operators that are away.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class SaveConflict : public AgentTest {
 protected:
  SaveConflict() { with_operator(); }
  static std::string incompressible(size_t size) {
    std::mt19937_64 random(7);
    std::string text;
    while (text.size() < size) {
      const uint64_t word = random();
      text.append(reinterpret_cast<const char*>(&word), sizeof(word));
    }
    return text;
  }
  // Worth compressing, and slow at high levels.
  static std::string half_compressible(size_t size) {
    std::string text = incompressible(size);
    for (char& letter : text) letter = static_cast<char>('a' + (letter & 15));
    return text;
  }
};

TEST_F(SaveConflict, BusyIsWaitedFor) {
  operator_.script([this](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves" || operator_.calls("POST", "/v1/saves").size() >= 2) return {};
    return json_response({{"decision", "busy"}, {"reason", "locked"}, {"retry_after_ms", 100}});
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 4u);
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, BusyAtTheEndIsWaitedForToo) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  operator_.script([this](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves" || operator_.calls("POST", "/v1/saves").size() >= 2) return {};
    return json_response({{"decision", "busy"}, {"retry_after_ms", 100}});
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/one")) << saver.log();
}

TEST_F(SaveConflict, BusyToTheEndIsToldAsLost) {
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  config_.save.at_termination = std::chrono::milliseconds(4'000);
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return {};
    return json_response({{"decision", "busy"}, {"retry_after_ms", 600}});
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(eventually([&] { return saver.log().find("watching") != std::string::npos; }));
  EXPECT_EQ(end(saver), 0);
  const auto reports = operator_.calls("POST", "/v1/effect");
  ASSERT_FALSE(reports.empty()) << saver.log();
  EXPECT_EQ(reports[0].body["save_outcome"], "ERROR");
  EXPECT_EQ(reports[0].body["save_reason"], "out_of_time");
  EXPECT_THAT(reports[0].body["save_message"], HasSubstr("another pod is saving"));
}

TEST_F(SaveConflict, WhoNeedNotSaveNowAsksAgainWhenItHasMore) {
  operator_.script([this](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves" || !operator_.calls("POST", "/v1/saves").empty()) return {};
    return json_response({{"decision", "refused"}, {"reason", "already_current"}});
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  write("ab/two", "x");
  EXPECT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, RefusedIsReportedAndNotAskedAgain) {
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return {};
    return json_response({{"decision", "refused"}, {"reason", "service_account_not_allowed"}});
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"],
            "service_account_not_allowed");
  write("ab/two", "x");
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 1u);
}

TEST_F(SaveConflict, ASaverThatLosesItsLockStopsAndAsksAgain) {
  operator_.set_lock_timeout(300);  // renewed every 100 ms
  config_.compression.level = 19;   // slow enough to be met in the middle
  operator_.script([this](const Call& call) -> std::optional<http::Response> {
    if (call.method == "PUT" && call.path == "/v1/saves/demo-1.1") {
      operator_.set_lock_timeout(30'000);  // nobody takes the next
      return error_response(409, "Conflict");
    }
    return {};
  });
  AgentProcess saver = start("save");
  write("ab/big", half_compressible(3 << 19));
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves/demo-1.1/commit").empty()) << saver.log();
  EXPECT_FALSE(operator_.calls("PUT", "/v1/saves/demo-1.1").empty());
  EXPECT_TRUE(operator_.calls("DELETE", "/v1/saves/demo-1.1").empty()) << "it is another's";
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, ACommitThatComesSecondIsRebasedOnTheNewHead) {
  const auto theirs = put_archive({{"torch/fxgraph/ab/THEIRS/file", "theirs"},
                                   {"torch/fxgraph/cd/SHARED/their-name", "theirs"}});
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves/demo-1.1/commit") return {};
    operator_.set_head(theirs.manifest, 9);
    return error_response(409, "Conflict");
  });
  AgentProcess saver = start("save");
  write("fxgraph/cd/SHARED/my-name", "mine");
  write("fxgraph/ef/MINE/file", "mine");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  // The union of keys; the entry that both compiled is there once.
  EXPECT_THAT(paths_of(operator_.head()), UnorderedElementsAre("torch/fxgraph/ab/THEIRS/file",
                                                               "torch/fxgraph/cd/SHARED/their-name",
                                                               "torch/fxgraph/ef/MINE/file"));
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body["parent_digest"],
            theirs.manifest);
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, ACommitUnderALockThatRanOutIsMadeAnew) {
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves/demo-1.1/commit") return {};
    return error_response(410, "Expired");
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_outcome"], "SUCCESS");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, AHeadThatMovedSinceItsOwnSaveIsExtended) {
  AgentProcess saver = start("save");
  write("fxgraph/ab/MINE/file", "mine");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const std::string mine = operator_.head();
  const auto theirs = put_archive({{"torch/fxgraph/cd/THEIRS/file", "theirs"}}, mine);
  operator_.set_head(theirs.manifest, 9);
  write("fxgraph/ef/MORE/file", "more");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body["parent_digest"],
            theirs.manifest);
  EXPECT_THAT(paths_of(operator_.head()),
              ElementsAre("torch/fxgraph/ab/MINE/file", "torch/fxgraph/cd/THEIRS/file",
                          "torch/fxgraph/ef/MORE/file"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, WhatAnotherPodSavedMeanwhileIsNotSavedAgain) {
  const auto theirs = put_archive({{"torch/fxgraph/cd/SHARED/their-name", "theirs"}});
  operator_.set_head(theirs.manifest, 3);  // this pod started cold, before that save
  AgentProcess saver = start("save");
  write("fxgraph/cd/SHARED/my-name", "mine");
  ASSERT_TRUE(operator_.wait_for("DELETE", "/v1/saves/demo-1.1", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  EXPECT_EQ(operator_.head(), theirs.manifest);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves").size(), 1u) << saver.log();
}

// The operator answers so when it has found the head lost.
TEST_F(SaveConflict, AHeadThatTheVolumeLostIsWrittenAnewWhenTheOperatorSaysSo) {
  const std::string lost = "sha256:" + std::string(64, 'a');
  operator_.set_head(lost, 3);
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path == "/v1/saves" && call.body["missing_digest"] == lost) operator_.set_head("", 3);
    return {};
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("DELETE", "/v1/saves/demo-1.1").size(), 1u);
  EXPECT_EQ(operator_.calls("POST", "/v1/saves/demo-1.2/commit")[0].body["parent_digest"], "");
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/one"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, AMissingOrCorruptHeadStaysWhileTheOperatorStandsByIt) {
  const auto theirs = put_archive({{"torch/ab/theirs", "x"}});
  operator_.set_head(theirs.manifest, 3);
  const std::string config = store::blob_path(store_, theirs.config);
  for (const bool corrupt : {false, true}) {
    fs::rename(config, config + ".away");
    if (corrupt) std::ofstream(config) << std::string(fs::file_size(config + ".away"), 'x');
    const size_t reports = operator_.calls("POST", "/v1/effect").size();
    AgentProcess saver = start("save");
    write(corrupt ? "ab/one" : "ab/two", "x");
    ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", reports + 1)) << saver.log();
    EXPECT_EQ(operator_.calls("POST", "/v1/effect")[reports].body["save_reason"], "io");
    const auto asked = operator_.calls("POST", "/v1/saves").back().body;
    EXPECT_EQ(asked["corrupt_digest"], corrupt ? theirs.config : "");
    EXPECT_EQ(asked["missing_digest"], corrupt ? "" : theirs.config);
    EXPECT_EQ(operator_.head(), theirs.manifest);
    fs::rename(config + ".away", config);
    EXPECT_EQ(end(saver), 0);
    EXPECT_EQ(operator_.head() == theirs.manifest, false) << "saved on top, at the end";
    operator_.set_head(theirs.manifest, 3);
  }
}

TEST_F(SaveConflict, AHeadThatCannotBeReadNowIsNotReplaced) {
  constexpr unsigned kNobody = 65534;
  const auto theirs = put_archive({{"torch/ab/theirs", "x"}});
  operator_.set_head(theirs.manifest, 3);
  fs::create_directories(config_.control_path);
  fs::permissions(config_.control_path, fs::perms::all);
  write("ab/mine", "x");
  const std::string blob = store::blob_path(store_, theirs.manifest);
  fs::permissions(blob, fs::perms::none);
  AgentProcess saver = start("save", {}, kNobody);
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"], "io");
  EXPECT_EQ(operator_.calls("DELETE", "/v1/saves/demo-1.1").size(), 1u);
  EXPECT_EQ(operator_.head(), theirs.manifest);
  for (const Call& call : operator_.calls("POST", "/v1/saves")) {
    EXPECT_EQ(call.body.value("corrupt_digest", "?"), "") << "nothing is known of it";
    EXPECT_EQ(call.body.value("missing_digest", "?"), "");
  }
  fs::permissions(blob, fs::perms(0644));  // it has passed
  EXPECT_EQ(end(saver), 0);
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/mine", "torch/ab/theirs"));
}

TEST_F(SaveConflict, AStoreThatIsGoneIsToldAndUsedWhenItIsBack) {
  fs::rename(store_, store_ + "-gone");
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_outcome"], "ERROR");
  EXPECT_EQ(report["save_reason"], "store_missing") << saver.log();
  fs::rename(store_ + "-gone", store_);  // what a sweep Job does
  EXPECT_EQ(end(saver), 0);
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/one"));
}

TEST_F(SaveConflict, AStoreThatMayNotBeWrittenToIsTold) {
  constexpr unsigned kNobody = 65534;
  fs::create_directories(config_.control_path);
  fs::permissions(config_.control_path, fs::perms::all);
  const fs::path blobs = store_ + "/blobs/sha256";
  fs::permissions(blobs, fs::perms(0755));
  AgentProcess saver = start("save", {}, kNobody);
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"], "store_forbidden")
      << saver.log();
  fs::permissions(blobs, fs::perms::all);
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, ACompileCacheThatIsGoneIsNotAnOperatorThatIs) {
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return {};
    return error_response(404, "NotFound");
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"], "cache_gone");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, AnArchiveOverTheLimitIsRefusedAndSaidSo) {
  config_.save.max_archive_size = 100'000;
  write("ab/one", incompressible(70'000));
  std::string other = incompressible(70'000);
  std::reverse(other.begin(), other.end());
  write("ab/two", other);
  AgentProcess saver = start("save", {"--debug"});
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_outcome"], "ERROR");
  EXPECT_EQ(report["save_reason"], "too_large");
  EXPECT_TRUE(eventually([&] {
    return saver.log().find("looked new=yes busy=no still=yes save=no") != std::string::npos;
  })) << "it is not tried again and again: "
      << saver.log();
  EXPECT_EQ(operator_.calls("DELETE", "/v1/saves/demo-1.1").size(), 1u);
  EXPECT_EQ(operator_.head(), "");
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, WhatWasTooLargeIsNotCompressedAgainToFindOut) {
  config_.save.max_archive_size = 100'000;
  write("ab/one", incompressible(70'000));
  std::string other = incompressible(70'000);
  std::reverse(other.begin(), other.end());
  write("ab/two", other);
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("DELETE", "/v1/saves/demo-1.1", 1)) << saver.log();
  write("ab/three", "x");
  ASSERT_TRUE(operator_.wait_for("DELETE", "/v1/saves/demo-1.2", 1)) << saver.log();
  EXPECT_EQ(end(saver), 0);
  const std::string log = saver.log();
  const size_t first = log.find("INFO saving ");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("INFO saving ", first + 1), std::string::npos) << log;
  EXPECT_EQ(operator_.calls("POST", "/v1/effect")[0].body["save_reason"], "too_large");
}

TEST_F(SaveConflict, OneFileOverTheLimitIsLeftOutAndSaidSo) {
  config_.save.max_archive_size = 100'000;
  write("ab/huge", incompressible(300'000));
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  const auto report = operator_.calls("POST", "/v1/effect")[0].body;
  EXPECT_EQ(report["save_outcome"], "SKIPPED") << "there is nothing else";
  EXPECT_EQ(report["save_reason"], "file_too_large");
  EXPECT_THAT(report["save_message"], HasSubstr("not saved: torch/ab/huge of "));
  EXPECT_THAT(report["save_message"], HasSubstr("save.maxArchiveSize: raise it"));
  EXPECT_EQ(operator_.calls("DELETE", "/v1/saves/demo-1.1").size(), 1u);
  write("ab/small", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.2/commit", 1)) << saver.log();
  EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/ab/small"));
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, AnOperatorThatIsAwayIsWaitedFor) {
  std::atomic<bool> away = true;
  operator_.script([&](const Call&) -> std::optional<http::Response> {
    if (away) return error_response(503, "Unavailable");
    return {};
  });
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves", 2)) << saver.log();
  EXPECT_TRUE(saver.running());
  away = false;
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1", 1)) << saver.log();
  ASSERT_TRUE(eventually([&] { return !operator_.head().empty(); })) << saver.log();
  EXPECT_EQ(end(saver), 0);
}

TEST_F(SaveConflict, CondemnedBlobsAreWrittenAnew) {
  const auto before = put_archive({{"torch/ab/one", "x"}});
  operator_.script([&](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/saves") return {};
    return json_response({{"decision", "granted"},
                          {"id", "demo-1.0"},
                          {"lock_timeout_ms", 30'000},
                          {"archive", "demo-1"},
                          {"generation", 1},
                          {"condemned", before.blobs()}});
  });
  // Another file in its place is how it is seen to be written.
  const std::string layer = store::blob_path(store_, before.layers[0]);
  const auto file = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(layer.c_str(), &info), 0);
    return info.st_ino;
  };
  const auto condemned = file();
  AgentProcess saver = start("save");
  write("ab/one", "x");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.0/commit", 1)) << saver.log();
  EXPECT_NE(file(), condemned);
  EXPECT_EQ(run("verify", {store_, operator_.head()}), 0) << log_;
  EXPECT_EQ(end(saver), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
