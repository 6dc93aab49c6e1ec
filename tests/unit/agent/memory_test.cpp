#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tests/unit/agent/agent_fixture.hpp"

// Memory of the saver beside the app for as long as the pod lives.

namespace compilecache::agent::testing {
namespace {

class SaverMemory : public AgentTest {
 protected:
  SaverMemory() { with_operator(); }

  static int kib_of(const AgentProcess& process, const char* what) {
    const std::string text = read_text("/proc/" + std::to_string(process.id()) + "/status");
    const char* found = std::strstr(text.c_str(), what);
    return found == nullptr ? -1 : std::atoi(found + std::strlen(what));
  }
  // Memory of the process alone, unlike the pages of programs and libraries.
  static int resident_kib(const AgentProcess& process) { return kib_of(process, "RssAnon:"); }
  static bool says(const AgentProcess& process, const std::string& word) {
    return eventually([&] { return process.log().find(word) != std::string::npos; });
  }
};

TEST_F(SaverMemory, OfManyFilesHardlyAnythingIsKeptWhileItWaits) {
  constexpr int kFiles = 30'000;
  constexpr int kMostKib = 4 << 10;  // all the files' names and times would be twice that
  for (int i = 0; i < kFiles; ++i) {
    write("some/folder/" + std::to_string(i % 100) + "/file-" + std::to_string(i), "");
  }
  AgentProcess saver = start("save");
  ASSERT_TRUE(operator_.wait_for("POST", "/v1/effect", 1)) << saver.log();
  EXPECT_TRUE(eventually([&] {
    const int kib = resident_kib(saver);
    return kib > 0 && kib <= kMostKib;
  })) << resident_kib(saver)
      << " KiB";
  saver.signal(SIGTERM);
  EXPECT_EQ(saver.wait(), 0);
}

TEST_F(SaverMemory, OfTheSupervisorIsSmallAndDoesNotGrow) {
  constexpr int kMostKib = 1024;  // nearly all of it are pages of the program's file
  constexpr int kMostOwnKib = 128;
  AgentProcess supervisor = supervise({"/bin/true"});
  ASSERT_TRUE(says(supervisor, "started again after 100 ms"));
  const int before = kib_of(supervisor, "VmSize:");
  ASSERT_TRUE(says(supervisor, "started again after 1600 ms"));
  EXPECT_EQ(kib_of(supervisor, "VmSize:"), before);
  EXPECT_LE(kib_of(supervisor, "VmHWM:"), kMostKib);
  EXPECT_LE(resident_kib(supervisor), kMostOwnKib);
  // Not a byte more than it has, and it does its work all the same.
  const rlimit nothing{0, 0};
  ASSERT_EQ(::prlimit(supervisor.id(), RLIMIT_DATA, &nothing, nullptr), 0);
  EXPECT_TRUE(says(supervisor, "started again after 3200 ms"));
  supervisor.signal(SIGTERM);
  EXPECT_EQ(supervisor.wait(), 0);
}

}  // namespace
}  // namespace compilecache::agent::testing
