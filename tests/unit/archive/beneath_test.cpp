#include "archive/beneath.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

using Open = Fd (*)(int folder, const std::string& path, int flags, mode_t mode);

// Tests with openat2(2) and, as if the kernel lacked it, without.
class Beneath : public ArchiveTest, public ::testing::WithParamInterface<Open> {
 protected:
  Beneath() {
    write_file(temp_.path("secret/file"), "secret");
    write_file(temp_.path("folder/ab/file"), "mine");
    fs::create_directory_symlink(temp_.path("secret"), temp_.path("folder/link"));
    fs::create_directory_symlink("ab", temp_.path("folder/inner"));
    fs::create_symlink("ab/file", temp_.path("folder/to_file"));
    folder_ = open_folder(temp_.path("folder"), O_RDONLY);
  }
  [[nodiscard]] Fd open(const std::string& path, int flags = O_RDONLY) const {
    return GetParam()(folder_.get(), path, flags, 0644);
  }
  // The file's content; "-" if it cannot be opened.
  [[nodiscard]] std::string content(const std::string& path) const {
    const Fd fd = open(path);
    char text[32];
    const ssize_t got = fd.valid() ? ::read(fd.get(), text, sizeof(text)) : -1;
    return got < 0 ? "-" : std::string(text, static_cast<size_t>(got));
  }
  Fd folder_;
};

TEST_P(Beneath, OpensWhatIsThere) {
  ASSERT_TRUE(folder_.valid());
  EXPECT_EQ(content("ab/file"), "mine");
  EXPECT_EQ(content("./ab//file"), "mine");
  EXPECT_TRUE(open(".").valid());
  EXPECT_FALSE(open("none").valid());
  EXPECT_EQ(errno, ENOENT);
}

TEST_P(Beneath, FollowsNoLink) {
  for (const char* path :
       {"link/file", "inner/file", "to_file", "link", "../secret/file", "ab/../../secret/file"}) {
    EXPECT_EQ(content(path), "-") << path;
  }
  EXPECT_EQ(content("/etc/passwd"), "-");
  EXPECT_FALSE(open("link/new", O_WRONLY | O_CREAT).valid());
  EXPECT_FALSE(fs::exists(temp_.path("secret/new")));
}

TEST_P(Beneath, ALinkItselfCanBeLookedAt) {
  const Fd link = open("to_file", O_PATH | O_NOFOLLOW);
  struct stat info {};
  ASSERT_EQ(::fstat(link.get(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

TEST_P(Beneath, MakesFiles) {
  EXPECT_TRUE(open("ab/new", O_WRONLY | O_CREAT | O_EXCL).valid());
  EXPECT_TRUE(fs::exists(temp_.path("folder/ab/new")));
  EXPECT_FALSE(open("ab/new", O_WRONLY | O_CREAT | O_EXCL).valid());
}

INSTANTIATE_TEST_SUITE_P(AnyKernel, Beneath, ::testing::Values(&open_beneath, &open_by_parts));

class Folders : public ArchiveTest {};

TEST_F(Folders, ALinkAtTheEndIsNotFollowed) {
  fs::create_directories(temp_.path("folder"));
  fs::create_directory_symlink(temp_.path("folder"), temp_.path("link"));
  EXPECT_TRUE(open_folder(temp_.path("folder"), O_RDONLY).valid());
  EXPECT_FALSE(open_folder(temp_.path("link"), O_RDONLY).valid());
  EXPECT_FALSE(open_folder(temp_.path("folder/../folder"), O_RDONLY).valid());
  EXPECT_TRUE(open_folder("/", O_RDONLY).valid());
}

// An image has such links, "/var/run" for example.
TEST_F(Folders, LinksOfTheRootsMountAreFollowed) {
  if (!fs::is_symlink("/lib")) GTEST_SKIP() << "there is no link to try it with";
  EXPECT_TRUE(open_folder("/lib/apt", O_RDONLY).valid());
}

// The application owns the content of a volume. Here /proc stands for one: it is a mount of its own
// and has links.
TEST_F(Folders, LinksBelowAnotherMountAreNot) {
  EXPECT_TRUE(open_folder("/proc/1/task", O_RDONLY).valid());
  EXPECT_FALSE(open_folder("/proc/self/task", O_RDONLY).valid());
}

TEST_F(Folders, AWriteReadsNothingBehindALink) {
  write_file(temp_.path("secret/file"), "secret");
  write_file(temp_.path("folder/ab/file"), "mine");
  fs::create_directory_symlink(temp_.path("secret"), temp_.path("folder/link"));
  const auto folder = std::make_shared<const Fd>(open_folder(temp_.path("folder"), O_RDONLY));
  WriteRequest request;
  request.files = {{"ab/file", "torch/ab/file", folder}, {"link/file", "torch/link/file", folder}};
  const auto written = write_archive(store_, std::move(request));
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(written->archive.files, 1U);
  ASSERT_EQ(written->left_out.size(), 1U);
  EXPECT_EQ(written->left_out[0].path, "torch/link/file");
}

}  // namespace
}  // namespace compilecache::archive::test
