#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "store/directory/directory_store.hpp"
#include "store/index.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

// Files that no archive may hold, in real directories, with the description of torch that users
// install.

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class NeverPacked : public AgentTest {
 protected:
  NeverPacked() {
    config_.key_basis.gpu_resource.clear();
    config_.key_basis.gpu_count = 0;
    auto described = nlohmann::json::parse(api::dump(config_));
    described["directories"][0]["framework"] = nlohmann::json::parse(
        read_text(compilecache::testing::in_tree("tests/gpu/framework.json")))[0];
    config_ = *api::parse_agent_config(described.dump());
  }

  std::vector<std::string> saved() {
    EXPECT_EQ(run("save", {"--once"}), 0) << log_;
    const auto index = store::DirectoryStore(store_).read_index().value();
    return index.entries.empty() ? std::vector<std::string>{} : paths_of(index.entries[0].digest);
  }
};

TEST_F(NeverPacked, LocksTemporariesAndWhatIsNoFile) {
  write("ab/kernel.py", "whole");
  write("locks/one.lock", "");
  write("locks/deep/er", "");
  write("triton/locks/two", "");
  write("ab/kernel.py.lock", "");
  write("ab/.123.456.tmp", "unfinished");
  write("ab/tmp.pid_7_abc", "unfinished");
  write("triton/0/KEY/tmp.0a1b/kernel.cubin", "unfinished");
  write("tmpabcdefgh/ab/kernel.py", "unfinished");
  write("triton/0/HALF/kernel.cubin", "without its group");
  write("cd/kernel_CxxBuild/flags", "being built");
  write("cd/kernel.cpp", "being built");
  write("cd/torn.so",
        "\x7f"
        "ELF and nothing more");
  fs::create_symlink("kernel.py", torch_ + "/ab/link.py");
  fs::create_symlink("/etc/passwd", torch_ + "/ab/passwd");
  fs::create_directory_symlink("ab", torch_ + "/folder");
  ASSERT_EQ(::mkfifo((torch_ + "/ab/fifo").c_str(), 0666), 0);
  if (::geteuid() == 0) {
    EXPECT_EQ(::mknod((torch_ + "/ab/null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
  }
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{AF_UNIX, {}};
  const std::string name = torch_ + "/ab/s";
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  name.copy(address.sun_path, name.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ::close(listener);

  EXPECT_THAT(saved(), ElementsAre("torch/ab/kernel.py")) << log_;
  // However old they become.
  config_.save.quiet_period = std::chrono::milliseconds(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  write("ab/later.py", "new");
  EXPECT_THAT(saved(), ElementsAre("torch/ab/kernel.py", "torch/ab/later.py")) << log_;
}

TEST_F(NeverPacked, WhatBecomesWholeIsSavedThen) {
  write("triton/0/KEY/kernel.cubin", "binary");
  write("cd/kernel_CxxBuild/flags", "");
  write("cd/kernel.cpp", "source");
  write("ab/.1.2.tmp", "module");
  EXPECT_THAT(saved(), IsEmpty());
  write("triton/0/KEY/__grp__kernel.json", "{}");
  fs::remove_all(torch_ + "/cd/kernel_CxxBuild");
  fs::rename(torch_ + "/ab/.1.2.tmp", torch_ + "/ab/module.py");
  EXPECT_THAT(saved(), UnorderedElementsAre("torch/triton/0/KEY/kernel.cubin",
                                            "torch/triton/0/KEY/__grp__kernel.json",
                                            "torch/cd/kernel.cpp", "torch/ab/module.py"));
}

TEST_F(NeverPacked, AFileThatGrowsAllTheTimeIsNeverThereByHalf) {
  with_operator();  // by the index a load would have no longer than this little compiling took
  write("ab/still.py", "still");
  write("ab/growing.log", "");
  std::atomic<bool> stop{false};
  std::thread app([&] {
    std::ofstream out(torch_ + "/ab/growing.log", std::ios::app);
    for (int line = 0; !stop; ++line) {
      out << std::string(1000, static_cast<char>('a' + line % 26)) << std::endl;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  // In another pod.
  const auto loaded = [&] {
    const api::AgentConfig ours = config_;
    config_.directories[0].path = root_ + "/other/torch";
    config_.control_path = root_ + "/other/control";
    EXPECT_EQ(run("load"), 0);
    config_ = ours;
    const std::string text = read_text(root_ + "/other/torch/ab/growing.log");
    EXPECT_EQ(read_text(root_ + "/other/torch/ab/still.py"), "still") << log_;
    fs::remove_all(root_ + "/other");
    return text;
  };
  config_.save.quiet_period = std::chrono::milliseconds(1);  // it is never still
  for (int i = 0; i < 5; ++i) {
    run("save", {"--once"});  // without the file, or with what it was at one moment
    const std::string now = content("ab/growing.log");
    if (store::DirectoryStore(store_).read_index()->entries.empty()) continue;
    const std::string text = loaded();
    EXPECT_EQ(now.compare(0, text.size(), text), 0);
  }
  stop = true;
  app.join();
  saved();
  EXPECT_EQ(loaded(), content("ab/growing.log")) << "once it is still, all of it";
}

}  // namespace
}  // namespace compilecache::agent::testing
