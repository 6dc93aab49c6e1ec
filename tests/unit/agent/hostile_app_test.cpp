#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "archive/manifest.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// The application may put anything into the folders that the saver looks at and writes to: links to
// what the saver alone can reach (the volume with others' archives), pipes, other folders.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr char kSecret[] = "what only our containers can read";

class HostileApp : public AgentTest {
 protected:
  HostileApp() {
    with_operator();
    outside_ = root_ + "/outside";
    fs::create_directories(outside_);
  }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  }
  // All that is below a folder, with content.
  static std::map<std::string, std::string> content_of(const std::string& folder) {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      files[entry.path()] = entry.is_regular_file() ? read_text(entry.path()) : "";
    }
    return files;
  }
  // Its length shows it.
  [[nodiscard]] bool holds_the_secret(const std::string& digest) const {
    const auto manifest = archive::read_manifest(store::DirectoryStore(store_), digest);
    const auto config = manifest ? archive::read_config(store::DirectoryStore(store_), *manifest)
                                 : Result<archive::Config>(unexpected(manifest.error()));
    EXPECT_TRUE(config);
    if (!config) return true;
    for (const auto& file : config->files) {
      if (file.size == sizeof(kSecret) - 1) return true;
    }
    return false;
  }
  // Whether a saver saves this, despite everything.
  void expect_saves(const std::string& path) {
    AgentProcess saver = start("save");
    write(path, "an entry");
    EXPECT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << saver.log();
    saver.signal(SIGTERM);
    EXPECT_EQ(saver.wait(), 0) << saver.log();
    ASSERT_FALSE(operator_.head().empty());
    EXPECT_THAT(paths_of(operator_.head()), ElementsAre("torch/" + path));
  }

  std::string outside_;
};

TEST_F(HostileApp, AFolderThatIsSwappedForALinkWhileASaveReadsItLeaksNothing) {
  config_.save.quiet_period = std::chrono::milliseconds(1);  // it is never still
  constexpr int kFiles = 20;
  for (int i = 0; i < kFiles; ++i) {
    write("ab/file" + std::to_string(i), "mine " + std::to_string(i));
    put(outside_ + "/file" + std::to_string(i), kSecret);
  }
  const std::string folder = torch_ + "/ab", link = torch_ + "/link";
  fs::create_directory_symlink(outside_, link);
  std::atomic<bool> over{false};
  std::thread app([&] {
    while (!over) {
      ::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
    }
  });
  int saved = 0;
  // Where no save succeeds nothing was tried: those go on until one does.
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const auto has_time = [&] { return std::chrono::steady_clock::now() < end; };
  for (int round = 0; (round < 60 || (saved == 0 && has_time())) && !HasFailure(); ++round) {
    ASSERT_EQ(run("save", {"--once"}) & ~1, 0) << log_;  // 1: files kept changing
    if (operator_.head().empty()) continue;
    ++saved;
    EXPECT_FALSE(holds_the_secret(operator_.head())) << "round " << round;
    fs::remove(control("saver.json"));  // the next one starts over
    operator_.set_head("", 0);
  }
  over = true;
  app.join();
  EXPECT_GT(saved, 0) << "no save read the folder while it was swapped";
}

TEST_F(HostileApp, NothingIsReadThroughALinkInPlaceOfTheCache) {
  put(outside_ + "/fxgraph/ab/KEY/file", kSecret);
  fs::create_directories(fs::path(torch_).parent_path());
  fs::create_directory_symlink(outside_, torch_);
  config_.save.quiet_period = std::chrono::milliseconds(3'600'000);
  AgentProcess saver = start("save");
  ASSERT_TRUE(eventually([&] { return saver.log().find("cannot look at") != std::string::npos; }))
      << saver.log();
  saver.signal(SIGTERM);
  EXPECT_EQ(saver.wait(), 0) << saver.log();
  EXPECT_EQ(operator_.head(), "");
  EXPECT_TRUE(operator_.calls("POST", "/v1/saves").empty());
}

TEST_F(HostileApp, NothingIsWrittenThroughALinkInPlaceOfTheControlDirectory) {
  put(outside_ + "/saver.json", "another pod's");
  put(outside_ + "/save", "another pod's request");
  put(outside_ + "/save.result", "another pod's answer");
  const auto before = content_of(outside_);
  fs::create_directories(fs::path(config_.control_path).parent_path());
  fs::create_directory_symlink(outside_, config_.control_path);
  expect_saves("fxgraph/ab/KEY/file");
  EXPECT_EQ(content_of(outside_), before);
}

TEST_F(HostileApp, ALinkInTheControlDirectoryLeadsNowhere) {
  put(outside_ + "/file", "another pod's");
  const auto before = content_of(outside_);
  fs::create_directories(config_.control_path);
  for (const char* name : {"saver.json", "status.json", "loaded.files", "save.result", "save"}) {
    fs::create_symlink(outside_ + "/file", control(name));
  }
  expect_saves("fxgraph/ab/KEY/file");
  EXPECT_EQ(content_of(outside_), before);
}

TEST_F(HostileApp, PipesInTheControlDirectoryHangNobody) {
  fs::create_directories(config_.control_path);
  for (const char* name : {"saver.json", "status.json", "loaded.files", "save.result"}) {
    ASSERT_EQ(::mkfifo(control(name).c_str(), 0666), 0);
  }
  expect_saves("fxgraph/ab/KEY/file");
  fs::remove_all(torch_);
  fs::remove(control("status.json"));
  ASSERT_EQ(::mkfifo(control("status.json").c_str(), 0666), 0);
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(status()["outcome"], "SUCCESS") << log_;
}

TEST_F(HostileApp, ALoaderThatRunsAgainEmptiesNothingThroughALink) {
  put(outside_ + "/precious", "another pod's");
  const auto before = content_of(outside_);
  fs::create_directories(fs::path(torch_).parent_path());
  fs::create_directory_symlink(outside_, torch_);
  put(control("loading"), "");
  EXPECT_EQ(run("load"), 0);
  EXPECT_EQ(content_of(outside_), before) << log_;
}

}  // namespace
}  // namespace compilecache::agent::testing
