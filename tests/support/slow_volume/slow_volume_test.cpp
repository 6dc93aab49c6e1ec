#include "tests/support/slow_volume/slow_volume.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/soon.hpp"

// The volume's promises to the tests that use it.

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;

class SlowVolumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = SlowVolume::missing()) GTEST_SKIP() << *why;
    volume_.emplace();
  }

  std::optional<SlowVolume> volume_;
};

bool write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc | std::ios::binary);
  out << text;
  out.close();
  return out.good();
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_F(SlowVolumeTest, IsAnOrdinaryFolder) {
  const std::string text(3 << 20, 'x');
  fs::create_directories(volume_->path("a/b"));
  ASSERT_TRUE(write(volume_->path("a/b/file"), text));
  EXPECT_EQ(read(volume_->backing("a/b/file")), text);
  fs::rename(volume_->path("a/b/file"), volume_->path("a/renamed"));
  EXPECT_EQ(read(volume_->path("a/renamed")), text);
  EXPECT_EQ(::truncate(volume_->path("a/renamed").c_str(), 7), 0);
  EXPECT_EQ(fs::file_size(volume_->path("a/renamed")), 7U);
  for (int i = 0; i < 500; ++i)
    ASSERT_TRUE(write(volume_->backing("a/a-long-name-" + std::to_string(i)), ""));
  const auto entries = fs::directory_iterator(volume_->path("a"));
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 502);
  fs::remove_all(volume_->path("a"));
  EXPECT_TRUE(fs::is_empty(volume_->backing()));
}

TEST_F(SlowVolumeTest, CountsEveryRoundTrip) {
  fs::create_directory(volume_->path("folder"));
  ASSERT_TRUE(write(volume_->backing("folder/file"), "text"));
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(read(volume_->path("folder/file")), "text");
    // Nothing was kept from the first time.
    EXPECT_EQ(volume_->count(operations_of(VolumeOperation::kOpen)), i);
    EXPECT_EQ(volume_->count(operations_of(VolumeOperation::kLookup)), 1 + 2 * i)
        << volume_->counts();
    EXPECT_GE(volume_->count(kDataOperations), i);
  }
  volume_->reset_counts();
  EXPECT_EQ(volume_->count(kAllOperations), 0U);
}

TEST_F(SlowVolumeTest, FailsWhatItIsTold) {
  volume_->fail(ENOSPC, kChangingOperations);
  EXPECT_FALSE(write(volume_->path("file"), "text"));
  volume_->work();
  ASSERT_TRUE(write(volume_->path("file"), "text"));
  const int fd = ::open(volume_->path("file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  volume_->fail(EIO, kDataOperations, 1, 1);
  char byte = 0;
  EXPECT_EQ(::pread(fd, &byte, 1, 0), 1);
  EXPECT_EQ(::pread(fd, &byte, 1, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(::pread(fd, &byte, 1, 0), 1);
  ::close(fd);
}

TEST_F(SlowVolumeTest, HangsUntilItIsLetGo) {
  ASSERT_TRUE(write(volume_->path("file"), "text"));
  volume_->hang(operations_of(VolumeOperation::kRead));
  std::string text;
  std::thread reader([&] { text = read(volume_->path("file")); });
  EXPECT_TRUE(soon([&] { return volume_->hanging() > 0; }));
  EXPECT_TRUE(fs::exists(volume_->path("file")));  // the others go on
  volume_->work();
  reader.join();
  EXPECT_EQ(text, "text");
}

TEST_F(SlowVolumeTest, EndsWhileSomethingHangs) {
  ASSERT_TRUE(write(volume_->path("file"), "text"));
  const std::string path = volume_->path("file");
  volume_->hang();
  std::string text = "not read";
  std::thread reader([&] { text = read(path); });
  EXPECT_TRUE(soon([&] { return volume_->hanging() > 0; }));
  volume_.reset();
  reader.join();
  EXPECT_EQ(text, "");
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace compilecache::testing
