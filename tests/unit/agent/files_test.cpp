#include "agent/files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/scan.hpp"

namespace compilecache::agent {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  Files() {
    std::string path = (fs::temp_directory_path() / "compilecache-files-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
  }
  ~Files() override { fs::remove_all(root_); }
  std::string root_;
};

// Read long before it was written.
bool written_at(const std::string& path, time_t seconds) {
  const timespec times[2] = {{1, 0}, {seconds, 0}};
  return ::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

TEST_F(Files, DirectoriesAreOpenToEveryUserWhateverTheUmask) {
  const mode_t before = ::umask(077);
  EXPECT_TRUE(make_open_directory(root_ + "/a/b/c"));
  EXPECT_TRUE(write_file(root_ + "/a/file", "text"));
  ::umask(before);
  EXPECT_EQ(mode_of(root_ + "/a"), 0777u);
  EXPECT_EQ(mode_of(root_ + "/a/b/c"), 0777u);
  EXPECT_EQ(mode_of(root_ + "/a/file"), 0644u);
  ASSERT_EQ(::chmod((root_ + "/a").c_str(), 0700), 0);
  EXPECT_TRUE(make_open_directory(root_ + "/a"));
  EXPECT_EQ(mode_of(root_ + "/a"), 0777u);
}

TEST_F(Files, AFileInTheWayIsNamed) {
  std::ofstream(root_ + "/file") << "x";
  const auto made = make_open_directory(root_ + "/file");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find(root_ + "/file is not a directory"), std::string::npos);
}

TEST_F(Files, EmptyingKeepsTheDirectoryAndWhatIsToBeKept) {
  fs::create_directories(root_ + "/sub/deep");
  fs::create_directories(root_ + "/control");
  std::ofstream(root_ + "/sub/deep/file") << "x";
  fs::create_directory_symlink("/etc", root_ + "/link");
  EXPECT_TRUE(directory_filled(root_, root_ + "/control"));
  EXPECT_TRUE(clear_directory(root_, root_ + "/control"));
  EXPECT_FALSE(directory_filled(root_, root_ + "/control"));
  EXPECT_TRUE(fs::exists(root_ + "/control"));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
}

TEST_F(Files, OneThatIsTooLargeIsNotRead) {
  const std::string path = root_ + "/large";
  std::ofstream(path).close();
  fs::resize_file(path, 65U << 20);  // takes no room
  const auto text = read_app_file(path);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kTooLarge);
  fs::resize_file(path, 63U << 20);
  EXPECT_TRUE(read_app_file(path));
}

TEST_F(Files, AScanListsEverythingAndFollowsNothing) {
  fs::create_directories(root_ + "/ab");
  std::ofstream(root_ + "/ab/file") << "12345";
  fs::create_directory_symlink("/etc", root_ + "/link");
  ASSERT_EQ(::mkfifo((root_ + "/fifo").c_str(), 0666), 0);
  const auto scan = scan_directory(root_);
  ASSERT_TRUE(scan);
  std::map<std::string, frameworks::FileInfo> items;
  for (const auto& item : scan->items) items[item.path] = item;
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items["ab"].type, frameworks::FileType::kDirectory);
  EXPECT_EQ(items["ab/file"].type, frameworks::FileType::kRegular);
  EXPECT_EQ(items["ab/file"].size, 5u);
  EXPECT_EQ(items["link"].type, frameworks::FileType::kOther);
  EXPECT_EQ(items["fifo"].type, frameworks::FileType::kOther);
}

// It would count as a read of the application's.
TEST_F(Files, AFileWhoseAccessTimeCannotBeLeftAloneIsNotRead) {
  ASSERT_TRUE(write_file(root_ + "/factors", "text"));
  const AppFolder folder = scan_directory(root_)->folder;
  EXPECT_EQ(read_quietly(folder, "factors", 10).value_or(""), "text");
  EXPECT_FALSE(read_quietly(folder, "factors", 3)) << "it is too large";
  if (::geteuid() == 0) {
    ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
    ASSERT_EQ(::seteuid(65534), 0);
    EXPECT_FALSE(read_quietly(folder, "factors", 10)) << "it is another user's";
    ASSERT_EQ(::seteuid(0), 0);
  } else {
    const AppFolder others = scan_directory("/etc")->folder;
    EXPECT_FALSE(read_quietly(others, "passwd", 1 << 20)) << "it is another user's";
  }
}

// An archive goes as deep.
TEST_F(Files, AScanGoesToThirtyTwoLevels) {
  std::string path = root_;
  for (int level = 1; level < 32; ++level) path += "/d";
  fs::create_directories(path + "/deepest");
  std::ofstream(path + "/file") << "x";
  std::ofstream(path + "/deepest/file") << "x";
  const auto scan = scan_directory(root_);
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->items.size(), 33u) << "31 folders, and the two in the last of them";
}

TEST_F(Files, AFolderThatMayNotBeReadIsCounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::create_directories(root_ + "/closed");
  ASSERT_EQ(::chmod((root_ + "/closed").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_EQ(::seteuid(65534), 0);
  const auto scan = scan_directory(root_);
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(scan);
  EXPECT_EQ(scan->unreadable_directories.count(), 1u);
  EXPECT_EQ(scan->unreadable_directories.by_owner.count(0), 1u);
}

// It is looked at once for as long as it stays as it is, and looking is no read of the app's.
TEST_F(Files, ALibraryIsLookedAtAgainWhenItHasChanged) {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(self), {}};
  const std::string path = root_ + "/lib.so";
  WholeFiles cache;
  const auto is_whole = [&] {
    const auto scan = scan_directory(root_);
    return cache.whole(scan->folder, scan->items.at(0), frameworks::Rules::WholeBy::kElf);
  };
  std::ofstream(path, std::ios::binary) << std::string(whole.size(), 'x');
  ASSERT_TRUE(written_at(path, 1000));
  EXPECT_FALSE(is_whole());
  std::ofstream(path, std::ios::binary) << whole;
  ASSERT_TRUE(written_at(path, 2000));
  EXPECT_TRUE(is_whole()) << "it is as long as before";
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_atim.tv_sec, 1);
}

// Otherwise nobody would notice it.
TEST_F(Files, ALibraryThatMayNotBeReadIsTakenForWhole) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  std::ofstream(root_ + "/lib.so") << "x";
  ASSERT_EQ(::chmod((root_ + "/lib.so").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  const auto scan = scan_directory(root_);
  ASSERT_TRUE(scan);
  WholeFiles cache;
  ASSERT_EQ(::seteuid(65534), 0);
  const bool whole = cache.whole(scan->folder, scan->items.at(0), frameworks::Rules::WholeBy::kElf);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_TRUE(whole);
}

TEST_F(Files, WhatIsNoDirectoryIsNoEmptyScan) {
  std::ofstream(root_ + "/file") << "x";
  EXPECT_FALSE(scan_directory(root_ + "/file"));
  fs::create_directory_symlink("/etc", root_ + "/link");
  EXPECT_FALSE(scan_directory(root_ + "/link"));
}

TEST_F(Files, NoDirectoryIsAnEmptyScan) {
  const auto scan = scan_directory(root_ + "/none");
  ASSERT_TRUE(scan);
  EXPECT_TRUE(scan->items.empty());
}

}  // namespace
}  // namespace compilecache::agent
