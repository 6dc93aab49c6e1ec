#include "agent/control_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

// The files of the control directory, which the app may write to as it likes.

namespace compilecache::agent {
namespace {

namespace fs = std::filesystem;

class ControlDirectoryTest : public ::testing::Test {
 protected:
  ControlDirectoryTest() {
    std::string path = (fs::temp_directory_path() / "compilecache-control-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
  }
  ~ControlDirectoryTest() override { fs::remove_all(root_); }
  [[nodiscard]] ControlDirectory control() const { return ControlDirectory(root_); }

  std::string root_;
};

TEST_F(ControlDirectoryTest, AMessageThatIsNotUtf8IsNotedAllTheSame) {
  LoadStatus status;
  status.outcome = api::Outcome::kError;
  status.reason = "io";
  status.message = "reading caf\xe9";
  ASSERT_TRUE(control().write_status(status));
  const auto read = control().read_status();
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->reason, "io");
  EXPECT_THAT(read->message, ::testing::StartsWith("reading caf"));
}

TEST_F(ControlDirectoryTest, ASaverStateOfNonsenseIsThatOfAFirstStart) {
  for (const char* text : {"", "{", "[]", "7", "{\"saves\": \"many\"}", "\xff\xfe"}) {
    std::ofstream(root_ + "/saver.json", std::ios::trunc) << text;
    const SaverState state = control().read_saver_state();
    EXPECT_EQ(state.saves, 0) << text;
    EXPECT_EQ(state.head, "") << text;
  }
}

TEST_F(ControlDirectoryTest, WhatWasLoadedIsThatOfOneFramework) {
  ASSERT_TRUE(control().write_loaded("torch/ab/one\ntriton/ab/two\ntorchx/three\ntorch/cut off"));
  const auto loaded = control().read_loaded("torch");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->size(), 1U) << "a line without its end was not written whole";
  EXPECT_TRUE(loaded->contains("ab/one"));
}

}  // namespace
}  // namespace compilecache::agent
