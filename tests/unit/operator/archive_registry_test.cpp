#include "operator/archives/archive_registry.hpp"

#include <gtest/gtest.h>

#include "fake_archives.hpp"

namespace compilecache::controller {
namespace {

using test::FakeArchives;

struct ArchiveUse : ::testing::Test {
  ArchiveUse() {
    EXPECT_TRUE(archives.create({.metadata = {.name = "a", .ns = "ml"}, .cache = "transformer"}));
  }

  // The next write is as `fault` says, all others are answered.
  void next_write(FakeArchives::Fault fault) {
    archives.fault = [this, fault] {
      archives.fault = [] { return FakeArchives::Fault::kNone; };
      return fault;
    };
  }

  api::CompileCacheArchive archive() { return *archives.get("ml", "a"); }

  FakeArchives archives;
  ArchiveRegistry registry{archives, std::chrono::milliseconds(0), SystemClock::instance()};
};

TEST_F(ArchiveUse, ALoadCountsOnceAlthoughTheAnswerToItsWriteIsLost) {
  registry.loaded("ml", "a", api::Match::kExact);
  registry.effect("ml", "a", std::nullopt, api::Effect::kFull);
  next_write(FakeArchives::Fault::kLostReply);
  registry.flush();
  registry.flush();
  EXPECT_EQ(archive().loads.exact, 1);
  EXPECT_EQ(archive().effect.full, 1);

  registry.loaded("ml", "a", api::Match::kExact);
  registry.flush(true);
  EXPECT_EQ(archive().loads.exact, 2) << "what comes later is counted";
}

TEST_F(ArchiveUse, ALoadCountsAlthoughItsFirstWriteWasNeverReceived) {
  registry.loaded("ml", "a", api::Match::kCompatible);
  next_write(FakeArchives::Fault::kLostRequest);
  registry.flush();
  EXPECT_EQ(archive().loads.compatible, 0);
  registry.flush(true);
  EXPECT_EQ(archive().loads.compatible, 1);
  EXPECT_FALSE(archive().last_used_time.empty());
}

}  // namespace
}  // namespace compilecache::controller
