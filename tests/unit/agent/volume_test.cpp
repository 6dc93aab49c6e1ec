#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>

#include "archive/format.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/support/slow_volume/slow_volume.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// The real agent on a volume that is full, read-only, gone, or does not answer.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using compilecache::testing::kAllOperations;
using compilecache::testing::kChangingOperations;
using compilecache::testing::operations_of;
using compilecache::testing::SlowVolume;
using compilecache::testing::VolumeOperation;

class Volume : public AgentTest {
 protected:
  void SetUp() override {
    if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
    volume_.emplace();
    store_ = volume_->path("store");
    config_.store_mount = store_;
    ASSERT_TRUE(store::DirectoryStore(store_).prepare({"cluster-1", "ml", "uid-1"}, false));
    with_operator();
  }

  // Large enough for several frames.
  void put_head() {
    std::map<std::string, std::string> files;
    for (int i = 0; i < 40; ++i) {
      std::string text(500'000, '\0');
      for (size_t at = 0; at < text.size(); ++at) text[at] = static_cast<char>(at * i * 7919 >> 7);
      files["torch/fxgraph/ab/KEY" + std::to_string(i) + "/file"] = text;
    }
    operator_.set_head(put_archive(files).manifest, 1);
  }

  void expect_cold() {
    EXPECT_TRUE(fs::is_directory(torch_));
    EXPECT_TRUE(fs::is_empty(torch_)) << log_;
    EXPECT_NE(status()["outcome"], "SUCCESS") << log_;
    EXPECT_FALSE(fs::exists(control("loading")));
  }

  // The last thing that was said about saving.
  [[nodiscard]] std::string told_of_saves() const {
    std::string told;
    for (const auto& call : operator_.calls("POST", "/v1/effect")) {
      const std::string outcome = call.body.value("save_outcome", "");
      if (!outcome.empty())
        told = outcome + " " + call.body.value("save_reason", "") + ": " +
               call.body.value("save_message", "");
    }
    return told;
  }

  // At the app's request, instead of after half a minute.
  void expect_saved_on_request() {
    fs::remove(control("save.result"));
    std::ofstream(control("save")).close();
    ASSERT_TRUE(eventually([&] { return fs::exists(control("save.result")); }));
    EXPECT_THAT(read_text(control("save.result")), ::testing::HasSubstr("SUCCESS"));
    EXPECT_THAT(paths_of(operator_.head()), ::testing::Contains("torch/fxgraph/ab/KEY/file"));
  }

  std::optional<SlowVolume> volume_;
};

TEST_F(Volume, ALoadFromAVolumeThatHangsIsGivenUp) {
  put_head();
  config_.load.timeout = std::chrono::milliseconds(400);
  for (const auto operations : {kAllOperations, operations_of(VolumeOperation::kOpen),
                                operations_of(VolumeOperation::kRead)}) {
    volume_->hang(operations);
    EXPECT_EQ(run("load"), 0);
    EXPECT_GT(volume_->hanging(), 0U) << "it waited for the volume";
    expect_cold();
    EXPECT_EQ(status()["reason"], "timeout") << log_;
    volume_->work();
    remove_cache();
  }
  config_.load.timeout = std::chrono::milliseconds(60'000);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
}

TEST_F(Volume, ALoadThatHangsInTheMiddleLeavesNothing) {
  put_head();
  config_.load.timeout = std::chrono::milliseconds(3'000);
  volume_->delay(std::chrono::milliseconds(20));
  AgentProcess loader = start("load");
  ASSERT_TRUE(eventually([&] { return fs::exists(control("loading")); })) << loader.log();
  volume_->hang();
  EXPECT_EQ(loader.wait(), 0);
  expect_cold();
  EXPECT_THAT(status()["reason"], ::testing::AnyOf("timeout", "too_slow")) << loader.log();
}

// Then nothing is being loaded any more: only why it failed is still asked for.
TEST_F(Volume, ALoadThatFailsOnAVolumeThatHangsAfterwardsLetsThePodStart) {
  put_head();
  config_.load.timeout = std::chrono::milliseconds(60'000);
  volume_->delay(std::chrono::milliseconds(100));
  volume_->fail(EIO, operations_of(VolumeOperation::kRead));
  volume_->reset_counts();
  AgentProcess loader = start("load");
  const auto reads = [&] { return volume_->count(operations_of(VolumeOperation::kRead)); };
  ASSERT_TRUE(eventually([&] { return reads() > 0; })) << loader.log();
  const uint64_t until_it_failed = volume_->count(kAllOperations);
  ASSERT_TRUE(eventually([&] { return volume_->count(kAllOperations) > until_it_failed; }));
  volume_->hang();
  EXPECT_EQ(loader.wait(), 0);
  EXPECT_GT(volume_->hanging(), 0U) << "it asked the volume nothing";
  expect_cold();
}

TEST_F(Volume, ALoadThatWouldComeTooLateIsGivenUpBeforeItsTimeIsUp) {
  std::mt19937 random(1);  // five frames that do not compress
  std::string noise(20 << 20, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  operator_.set_head(put_archive({{"torch/noise", noise}}).manifest, 1);
  config_.load.timeout = std::chrono::milliseconds(6'000);
  volume_->throughput(2'500'000);
  EXPECT_EQ(run("load"), 0);
  expect_cold();
  EXPECT_EQ(status()["reason"], "too_slow") << log_;
}

// At any step: here many copies of one content, in directories of their own.
TEST_F(Volume, ALoadThatIsGivenUpWhileItMakesFilesLeavesNothing) {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 3'000; ++i)
    files["torch/" + std::to_string(i) + "/same"] = std::string(9, 'x');
  operator_.set_head(put_archive(files).manifest, 1);
  torch_ = volume_->path("torch");  // where creating takes its time
  config_.directories[0].path = torch_;
  config_.load.timeout = std::chrono::milliseconds(200);
  fs::create_directories(volume_->backing("torch"));
  volume_->delay(std::chrono::microseconds(300));
  EXPECT_EQ(run("load"), 0);
  volume_->delay(std::chrono::microseconds(0));
  expect_cold();
  // Whichever is seen first.
  EXPECT_THAT(status()["reason"], ::testing::AnyOf("timeout", "too_slow")) << log_;
}

TEST_F(Volume, SigtermEndsALoadThatHangs) {
  put_head();
  config_.load.timeout = std::chrono::milliseconds(600'000);
  volume_->hang();
  AgentProcess loader = start("load");
  ASSERT_TRUE(eventually([&] { return volume_->hanging() > 0; }));
  loader.signal(SIGTERM);
  EXPECT_EQ(loader.wait(), 0);
  EXPECT_GT(volume_->hanging(), 0U);
  expect_cold();
}

TEST_F(Volume, ALoadThatMeetsAnErrorAnywhereIsAColdStart) {
  put_head();
  for (const int error : {EIO, EROFS, ESTALE, ENOSPC, EDQUOT, EACCES}) {
    bool loaded = false;
    for (int64_t after = 0; !loaded; after += 1 + after / 2) {
      volume_->fail(error, kAllOperations, after, 1);
      EXPECT_EQ(run("load"), 0);
      loaded = status()["outcome"] == "SUCCESS";
      if (!loaded) expect_cold();
      remove_cache();
      ASSERT_FALSE(HasFailure()) << "errno " << error << " after " << after << " operations";
    }
    volume_->fail(error, kAllOperations);
    EXPECT_EQ(run("load"), 0);
    expect_cold();
    remove_cache();
  }
}

TEST_F(Volume, ASaveThatTheVolumeRefusesIsToldAndTriedAgain) {
  write("fxgraph/ab/KEY/file", "an entry");
  for (const auto& [error, words] : std::map<int, std::string>{
           {ENOSPC, "No space left"}, {EDQUOT, "quota"}, {EROFS, "Read-only"}, {ESTALE, "Stale"}}) {
    SCOPED_TRACE(words);
    operator_.set_head("", 0);
    volume_->fail(error, kChangingOperations);
    AgentProcess saver = start("save");
    ASSERT_TRUE(eventually([&] { return told_of_saves().find(words) != std::string::npos; }))
        << saver.log();
    const bool full = error == ENOSPC || error == EDQUOT;
    EXPECT_THAT(told_of_saves(),
                ::testing::StartsWith(full ? "ERROR volume_full: " : "ERROR io: "));
    EXPECT_TRUE(saver.running());
    volume_->work();
    expect_saved_on_request();
    saver.signal(SIGTERM);
    EXPECT_EQ(saver.wait(), 0);
    fs::remove_all(config_.control_path);
    fs::remove_all(volume_->backing("store/blobs/sha256"));
    ASSERT_TRUE(store::DirectoryStore(store_).prepare({"cluster-1", "ml", "uid-1"}, false));
  }
}

TEST_F(Volume, ARefusedSaveIsTriedAgainWithoutBeingAsked) {
  write("fxgraph/ab/KEY/file", "an entry");
  volume_->fail(ENOSPC, kChangingOperations);
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return !told_of_saves().empty(); })) << saver.log();
  volume_->work();
  EXPECT_TRUE(eventually([&] { return !operator_.head().empty(); })) << saver.log();
}

TEST_F(Volume, ASaverOnAVolumeThatHangsGoesOnWhenItIsBack) {
  write("fxgraph/ab/KEY/file", "an entry");
  volume_->hang();
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return volume_->hanging() > 0; })) << saver.log();
  EXPECT_TRUE(saver.running());
  volume_->work();
  EXPECT_TRUE(eventually([&] { return !operator_.head().empty(); })) << saver.log();
  saver.signal(SIGTERM);
  EXPECT_EQ(saver.wait(), 0);
}

TEST_F(Volume, ASweepOnAVolumeThatFailsDeletesNothingElse) {
  put_head();
  for (const int error : {EIO, EROFS, ESTALE}) {
    for (int64_t after = 0; after < 40; after += 3) {
      volume_->fail(error, kAllOperations, after);
      run("sweep");
      volume_->work();
    }
  }
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
}

// A file that a saver is writing now looks as old as the two clocks are apart.
TEST_F(Volume, ASweepJudgesWhatIsIncompleteByTheVolumesClock) {
  const std::string unfinished = "store/blobs/sha256/0123456789abcdef.incomplete";
  std::ofstream(volume_->backing(unfinished)) << "half a blob";
  volume_->clock_behind(std::chrono::minutes(5));
  operator_.script([](const Call& call) -> std::optional<http::Response> {
    if (call.path != "/v1/sweeps" || call.body["phase"] != "begin") return {};
    return json_response({{"incomplete_timeout_ms", 60'000}});
  });
  EXPECT_EQ(run("sweep"), 0) << log_;
  EXPECT_TRUE(fs::exists(volume_->backing(unfinished)));
}

}  // namespace
}  // namespace compilecache::agent::testing
