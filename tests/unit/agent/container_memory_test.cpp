#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/container_memory.hpp"
#include "archive/extract/extract.hpp"
#include "store/directory/directory_store.hpp"
#include "tests/unit/agent/agent_fixture.hpp"

namespace compilecache::agent::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uint64_t kMebibyte = 1U << 20U;

// A file system's root with control groups as a container sees them.
class ContainerMemory : public AgentTest {
 protected:
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << "\n";
  }
  std::optional<uint64_t> limit() const { return container_memory(root_); }
};

TEST_F(ContainerMemory, OfVersion2) {
  put("/proc/self/cgroup", "0::/");
  EXPECT_EQ(limit(), std::nullopt);
  put("/sys/fs/cgroup/memory.max", "max");
  EXPECT_EQ(limit(), std::nullopt);
  put("/sys/fs/cgroup/memory.max", "268435456");
  EXPECT_EQ(limit(), 256 * kMebibyte);
}

TEST_F(ContainerMemory, OfVersion2WithTheNodesGroups) {
  put("/proc/self/cgroup", "0::/kubepods/pod1/container");
  put("/sys/fs/cgroup/kubepods/pod1/container/memory.max", "134217728");
  EXPECT_EQ(limit(), 128 * kMebibyte);
}

TEST_F(ContainerMemory, OfVersion1) {
  put("/proc/self/cgroup", "5:cpu,cpuacct:/pod/c\n4:hugetlb,memory:/pod/c\n0::/");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(limit(), std::nullopt);
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728");
  EXPECT_EQ(limit(), 128 * kMebibyte);
  put("/sys/fs/cgroup/memory/pod/c/memory.limit_in_bytes", "67108864");
  EXPECT_EQ(limit(), 64 * kMebibyte);
}

TEST_F(ContainerMemory, NothingToBeSeenIsNone) {
  EXPECT_EQ(limit(), std::nullopt);
  put("/proc/self/cgroup", "neither\n::\nthis:nor that");
  put("/sys/fs/cgroup/memory.max", "-");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST(WorkMemory, LeavesRoomForTheRestOfTheContainer) {
  EXPECT_EQ(work_memory(256 * kMebibyte), 224 * kMebibyte);
  EXPECT_EQ(work_memory(64 * kMebibyte), 56 * kMebibyte);
  EXPECT_EQ(work_memory(8 * kMebibyte), 4 * kMebibyte);
  EXPECT_EQ(work_memory(0), 0U);
}

TEST(WorkMemory, OfTheCompressorIsWhatIsLeft) {
  constexpr size_t kUsual = 92 * kMebibyte;
  EXPECT_EQ(compressor_memory(224 * kMebibyte, kUsual), kUsual);
  EXPECT_EQ(compressor_memory(112 * kMebibyte, kUsual), 76 * kMebibyte);
  EXPECT_EQ(compressor_memory(16 * kMebibyte, kUsual), 24 * kMebibyte);
}

#ifndef __SANITIZE_ADDRESS__  // its own memory counts
class LittleMemory : public AgentTest {
 protected:
  LittleMemory() { with_operator(); }

  // As a limit of the container leaves it. Gives its own back at the end.
  AgentProcess supervise_within(rlim_t bytes) {
    rlimit before{};
    EXPECT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
    const rlimit little{bytes, before.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_DATA, &little), 0);
    AgentProcess process = supervise(saver());
    EXPECT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
    return process;
  }
  // Large enough that a save wants all the memory that it may have.
  void write_much() const {
    std::string text(48 * kMebibyte, 'x');
    for (size_t i = 0; i < text.size(); i += 61) text[i] = static_cast<char>(i * i);
    write("fxgraph/ab/KEY/file", text);
  }
};

TEST_F(LittleMemory, ASaveFitsIntoWhatAContainerOf128MiBLeaves) {
  config_.compression.level = 19;
  config_.compression.threads = 16;
  write_much();
  AgentProcess supervisor = supervise_within(work_memory(128 * kMebibyte));
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/saves/demo-1.1/commit", 1)) << supervisor.log();
  EXPECT_TRUE(archive::verify(store::DirectoryStore(store_), operator_.head()));
  EXPECT_THAT(supervisor.log(), ::testing::Not(HasSubstr("started again")));
}

TEST_F(LittleMemory, WhereItDoesNotDoThePodHearsAboutItAndIsLeftAlone) {
  write_much();
  AgentProcess supervisor = supervise_within(24 * kMebibyte);
  const auto told = [&] {
    const std::string log = supervisor.log();
    return log.find("memory that the container's limit leaves") != std::string::npos ||
           log.find("started again") != std::string::npos;
  };
  EXPECT_TRUE(eventually(told)) << supervisor.log();
  EXPECT_TRUE(supervisor.running());
  supervisor.signal(SIGTERM);
  EXPECT_EQ(supervisor.wait(), 0) << supervisor.log();
}
#endif

}  // namespace
}  // namespace compilecache::agent::testing
