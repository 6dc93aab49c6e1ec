#include "agent/watched.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "store/memory/memory_store.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

namespace compilecache::agent::testing {
namespace {

class WatchedTest : public AgentTest {
 protected:
  WatchedTest() : control_(config_.control_path) {
    std::filesystem::create_directories(config_.control_path);
    write("fxgraph/ab/fabc/entry", "one");
    load_.outcome = api::Outcome::kSuccess;
    load_.reads_visible = true;
    load_.loaded_at = clock_.wall();
    (void)control_.write_loaded("torch/fxgraph/ab/fabc/entry\n");
    set_read_time("fxgraph/ab/fabc/entry", 1);
    watched_.emplace(config_, blobs_, load_, control_, clock_);
  }

  void set_read_time(const std::string& path, time_t seconds) const {
    const timespec times[2] = {{seconds, 0}, {0, UTIME_OMIT}};
    const std::string file = config_.directories[0].path + "/" + path;
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  }

  const SystemClock clock_;  // what is watched are real files
  const store::MemoryStore blobs_{clock_};
  ControlDirectory control_;
  LoadStatus load_;
  std::optional<Watched> watched_;
};

TEST_F(WatchedTest, ADifferenceIsSeenWithoutKeepingAnything) {
  ASSERT_TRUE(watched_->look());
  ASSERT_TRUE(watched_->look());
  EXPECT_FALSE(watched_->changed());
  watched_->forget();
  EXPECT_FALSE(*watched_->differs());

  set_read_time("fxgraph/ab/fabc/entry", 2);
  EXPECT_TRUE(*watched_->differs());
  EXPECT_TRUE(*watched_->differs()) << "until somebody looks";
  ASSERT_TRUE(watched_->look());
  EXPECT_TRUE(watched_->changed());
  EXPECT_FALSE(*watched_->differs());

  write("fxgraph/ab/fabc/entry", "another");
  EXPECT_TRUE(*watched_->differs());
  ASSERT_TRUE(watched_->look());
  write("fxgraph/ab/fnew/entry", "new");
  EXPECT_TRUE(*watched_->differs());
}

// The walk ends at a number of files; half an entry is of no use to anybody.
TEST_F(WatchedTest, AnEntryOfWhichNotAllWasSeenIsNotPacked) {
  const std::string folder = config_.directories[0].path + "/fxgraph/zz/fmany";
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i <= kMaxScanned; ++i) {
    ::close(::open((folder + "/" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0666));
  }
  ASSERT_TRUE(watched_->look());
  const SaveView view = watched_->plan({}, {}, std::nullopt);
  EXPECT_TRUE(view.truncated);
  const bool packed = std::any_of(view.files.begin(), view.files.end(), [](const auto& file) {
    return file.path.starts_with("torch/fxgraph/zz/fmany/");
  });
  EXPECT_FALSE(packed);
}

// As rsync and cp -p do.
TEST_F(WatchedTest, ARewriteThatPutsTheTimesBackIsADifference) {
  const std::string file = config_.directories[0].path + "/fxgraph/ab/fabc/entry";
  struct stat before {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  ASSERT_TRUE(watched_->look());
  const timespec times[2] = {before.st_atim, before.st_mtim};
  struct stat after = before;
  while (after.st_ctim.tv_nsec == before.st_ctim.tv_nsec) {  // the kernel's clock ticks slowly
    write("fxgraph/ab/fabc/entry", "two");
    ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    ASSERT_EQ(::stat(file.c_str(), &after), 0);
  }
  EXPECT_TRUE(*watched_->differs());
}

TEST_F(WatchedTest, WhatWasForgottenIsLookedUpAgain) {
  const auto judge = [&] {
    EXPECT_TRUE(watched_->look());
    return watched_->judge();
  };
  const frameworks::Evidence before = judge();
  EXPECT_EQ(before.effect, api::Effect::kUnused);
  EXPECT_EQ(before.loaded_entries, 1u);
  watched_->forget();
  EXPECT_EQ(judge(), before);
  watched_->forget();
  set_read_time("fxgraph/ab/fabc/entry", 100);
  EXPECT_EQ(judge().effect, api::Effect::kFull);
}

}  // namespace
}  // namespace compilecache::agent::testing
