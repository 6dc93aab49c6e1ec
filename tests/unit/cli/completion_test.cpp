// What Tab offers: the protocol that kubectl's completion reads, with names of a cluster, and bash
// itself on a terminal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/strings.hpp"
#include "cli/command_line.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/support/paths.hpp"
#include "tests/unit/cli/kubeconfig_file.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FakeApiServer;
using ::testing::HasSubstr;
using ::testing::Not;

class Completion : public ::testing::Test {
 protected:
  Completion() {
    const std::string group = "/apis/compilecache.dev/v1alpha1/";
    for (const char* name : {"llama", "llava", "qwen"}) {
      server_.put(group + "compilecaches", {{"metadata", {{"namespace", "ml"}, {"name", name}}}});
    }
    server_.put(group + "compilecaches",
                {{"metadata", {{"namespace", "other"}, {"name", "elsewhere"}}}});
    server_.put(group + "compilecachearchives",
                {{"metadata", {{"namespace", "ml"}, {"name", "llama-1"}}},
                 {"spec", {{"cache", "llama"}, {"key", {{"GPUProduct", "NVIDIA-H100"}}}}},
                 {"status", {{"head", {{"generation", 1}, {"manifestDigest", "sha256:1"}}}}}});
    server_.put("/api/v1/pods", {{"metadata", {{"namespace", "ml"}, {"name", "web-1"}}}});
    server_.put("/api/v1/namespaces", {{"metadata", {{"name", "ml"}}}});
    server_.put("/apis/apps/v1/deployments",
                {{"metadata", {{"namespace", "ml"}, {"name", "web"}}}});
  }

  // The lines for that command line; the last word is the one to complete.
  std::vector<std::string> complete(std::vector<std::string> words, bool reachable = true) {
    if (reachable) words.insert(words.begin() + 1, {"--kubeconfig", kubeconfig_.path()});
    words.insert(words.begin(), {"kubectl-compilecache", "__complete"});
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(parse_command_line(static_cast<int>(argv.size()), argv.data()).exit_code, 0);
    auto lines = split(::testing::internal::GetCapturedStdout(), '\n');
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    return lines;
  }

  FakeApiServer server_;
  KubeconfigFile kubeconfig_{server_.url()};
};

TEST_F(Completion, OfCommandsAndOptionsNeedsNoCluster) {
  EXPECT_THAT(
      complete({"stat"}, false),
      ElementsAre("status\tshow the state of CompileCaches, what is wrong and what to do", ":4"));
  EXPECT_THAT(complete({"status", "--al"}, false),
              ElementsAre("--all-namespaces\tall of the cluster", ":4"));
  EXPECT_THAT(complete({"archives", "-o", "w"}, false), ElementsAre("wide", ":4"));
  EXPECT_THAT(complete({"archives", "--output=w"}, false), ElementsAre("wide", ":4"));
  EXPECT_THAT(complete({"help", "ver"}, false),
              ElementsAre(HasSubstr("verify\t"), HasSubstr("version\t"), ":4"));
  EXPECT_THAT(complete({"completion", ""}, false), ElementsAre("bash", "fish", "zsh", ":4"));
  EXPECT_THAT(complete({"nothing", ""}, false), ElementsAre(":4"));
}

TEST_F(Completion, LeavesFilesToTheShell) {
  EXPECT_THAT(complete({"inject", "-f", "dep"}, false), ElementsAre(":0"));
  EXPECT_THAT(complete({"import", "lla"}, false), ElementsAre(":0"));
}

TEST_F(Completion, OffersEachOptionOnce) {
  EXPECT_THAT(complete({"status", "--watch", "--"}, false), Not(Contains(HasSubstr("--watch"))));
  EXPECT_THAT(complete({"prewarm", "--gpu", "a", "--"}, false), Contains(HasSubstr("--gpu\t")));
}

TEST_F(Completion, OffersTheNamesOfTheCluster) {
  EXPECT_THAT(complete({"status", "ll"}), ElementsAre("llama", "llava", ":4"));
  EXPECT_THAT(complete({"status", "-n", "other", ""}), ElementsAre("elsewhere", ":4"));
  EXPECT_THAT(complete({"copy", "llama", "--to", "q"}), ElementsAre("qwen", ":4"));
  EXPECT_THAT(complete({"status", "-n", ""}), ElementsAre("ml", ":4"));
  EXPECT_THAT(complete({"status", "--context", ""}), ElementsAre("here", ":4"));
  EXPECT_THAT(complete({"delete", "llama/"}), ElementsAre("llama/llama-1\tNVIDIA-H100", ":4"));
  EXPECT_THAT(complete({"delete", "llama/x", "ll"}), Contains(HasSubstr("llama/llama-1")));
  EXPECT_THAT(complete({"explain", "we"}), ElementsAre("web-1", ":4"));
  EXPECT_THAT(complete({"explain", "deployment/"}), ElementsAre("deployment/web", ":4"));
  EXPECT_THAT(complete({"prewarm", "--gpu", ""}), ElementsAre("NVIDIA-H100", ":4"));
  EXPECT_THAT(complete({"archives", "llama", ""}), ElementsAre(":4"));
}

TEST_F(Completion, OfAKindOfWorkloadGoesOnWithoutABlank) {
  EXPECT_THAT(complete({"explain", "dep"}), ElementsAre("deployment/", ":6"));
  EXPECT_THAT(complete({"prewarm", "dep"}), ElementsAre("deployment/", ":6"));
}

// An interactive bash, and what it shows.
class Bash {
 public:
  explicit Bash(const std::string& kubeconfig) {
    child_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      const std::string path = testing::in_build("cli") + ":" + std::getenv("PATH");
      ::setenv("PATH", path.c_str(), 1);
      ::setenv("KUBECONFIG", kubeconfig.c_str(), 1);
      ::setenv("TERM", "dumb", 1);
      ::setenv("PS1", "$ ", 1);
      ::execlp("bash", "bash", "--norc", "--noprofile", "-i", nullptr);
      ::_exit(127);
    }
  }
  ~Bash() {
    ::close(terminal_);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  void type(const std::string& keys) {
    EXPECT_EQ(::write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  // Whether it shows that within some seconds. What came before is forgotten.
  bool shows(const std::string& text) {
    std::array<char, 4096> piece{};
    for (pollfd waits{terminal_, POLLIN, 0}; ::poll(&waits, 1, 20000) > 0;) {
      const ssize_t count = ::read(terminal_, piece.data(), piece.size());
      if (count <= 0) return false;
      shown_.append(piece.data(), static_cast<size_t>(count));
      if (shown_.find(text) == std::string::npos) continue;
      shown_.clear();
      return true;
    }
    return false;
  }
  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  pid_t child_ = 0;
  int terminal_ = -1;
  std::string shown_;
};

TEST_F(Completion, WorksInBash) {
  Bash bash(kubeconfig_.path());
  bash.type("source <(kubectl-compilecache completion bash); echo re''ady\r");
  ASSERT_TRUE(bash.shows("ready\r\n")) << bash.shown();
  const struct {
    const char *typed, *completed;
  } cases[] = {
      {"kubectl-compilecache stat\t", "kubectl-compilecache status "},
      {"kubectl-compilecache archives --output=wi\t", "--output=wide "},
      {"kubectl-compilecache status q\t", "status qwen "},
      {"kubectl-compilecache explain deploym\t", "explain deployment/"},
      {"kubectl-compilecache delete llama/\t", "delete llama/llama-1 "},
  };
  for (const auto& [typed, completed] : cases) {
    bash.type(typed);
    EXPECT_TRUE(bash.shows(completed)) << bash.shown();
    bash.type("\x15");
  }
}

}  // namespace
}  // namespace compilecache::cli
