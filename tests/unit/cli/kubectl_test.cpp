#include "cli/cluster/kubectl.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/unit/archive/archive_fixture.hpp"

namespace compilecache::cli {
namespace {

using archive::test::read_file;
using ::testing::HasSubstr;
using ::testing::Not;

// A program of that name, which says what it was called with.
class KubectlTest : public ::testing::Test {
 protected:
  KubectlTest() {
    const char* path = std::getenv("PATH");
    before_ = path == nullptr ? "" : path;
    ::setenv("PATH", (temp_.path() + ":" + before_).c_str(), 1);
  }
  ~KubectlTest() override { ::setenv("PATH", before_.c_str(), 1); }
  void script(const std::string& text) const {
    std::ofstream(temp_.path("kubectl")) << "#!/bin/sh\n" << text;
    ::chmod(temp_.path("kubectl").c_str(), 0755);
  }

  archive::test::TempDir temp_;
  std::string before_;
};

TEST_F(KubectlTest, StreamsFilesAsTheSameUserOnTheSameCluster) {
  script("echo \"$@\"; cat");
  std::ofstream(temp_.path("in")) << std::string("a\0b\n", 4);
  const auto done = run_kubectl({.kubeconfig = "/some config", .context = "there"}, {"exec", "pod"},
                                {.input = temp_.path("in"), .output = temp_.path("out")});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(read_file(temp_.path("out")),
            "--kubeconfig=/some config --context=there exec pod\n" + std::string("a\0b\n", 4));
}

TEST_F(KubectlTest, SaysWhatWasSaidWhereItFails) {
  script("cat; yes said a lot | head -n 20000 >&2; echo 'pods \"x\" is forbidden' >&2; exit 3");
  const auto done = run_kubectl({}, {"exec", "pod"}, {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("kubectl exec ended with 3: "));
  EXPECT_THAT(done.error().message, HasSubstr("pods \"x\" is forbidden"));
  EXPECT_LT(done.error().message.size(), 5000U);
  EXPECT_THAT(done.error().message, Not(HasSubstr("--kubeconfig")));
}

TEST_F(KubectlTest, HearsSignalsThatThisProgramWaitsFor) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  script("kill -TERM $$; exit 0");
  const auto done = run_kubectl({}, {"exec"}, {});
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("kubectl exec ended with 143"));
}

TEST_F(KubectlTest, HasToBeOnThePath) {
  ::setenv("PATH", temp_.path().c_str(), 1);
  const auto done = run_kubectl({}, {"exec"}, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(done.error().message, HasSubstr("on the PATH"));
}

}  // namespace
}  // namespace compilecache::cli
