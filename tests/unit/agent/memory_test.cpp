#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tests/unit/agent/agent_fixture.hpp"

// What the saver takes beside the app for as long as the pod lives.

namespace compilecache::agent::testing {
namespace {

class SaverMemory : public AgentTest {
 protected:
  SaverMemory() { with_operator(); }

  // What is the process's alone, unlike the pages of programs and libraries.
  static int resident_kib(const AgentProcess& process) {
    const std::string text = read_text("/proc/" + std::to_string(process.id()) + "/status");
    const char* found = std::strstr(text.c_str(), "RssAnon:");
    return found == nullptr ? -1 : std::atoi(found + std::strlen("RssAnon:"));
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

}  // namespace
}  // namespace compilecache::agent::testing
