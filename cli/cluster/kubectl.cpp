#include "cli/cluster/kubectl.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/strings.hpp"

namespace compilecache::cli {
namespace {

constexpr size_t kMostSaid = 4096;
constexpr mode_t kOwnFile = 0600;

std::vector<std::string> command_line(const ClusterOptions& cluster,
                                      const std::vector<std::string>& arguments) {
  std::vector<std::string> line{"kubectl"};
  if (!cluster.kubeconfig.empty()) line.push_back("--kubeconfig=" + cluster.kubeconfig);
  if (!cluster.context.empty()) line.push_back("--context=" + cluster.context);
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

// A child's first three files.
class ChildFiles {
 public:
  ChildFiles(const KubectlFiles& files, int errors) {
    ::posix_spawn_file_actions_init(&actions_);
    open(STDIN_FILENO, files.input, O_RDONLY);
    open(STDOUT_FILENO, files.output, O_WRONLY | O_CREAT | O_TRUNC);
    ::posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
  }
  ~ChildFiles() { ::posix_spawn_file_actions_destroy(&actions_); }
  ChildFiles(const ChildFiles&) = delete;
  ChildFiles& operator=(const ChildFiles&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  void open(int fd, const std::string& path, int flags) {
    ::posix_spawn_file_actions_addopen(&actions_, fd, path.empty() ? "/dev/null" : path.c_str(),
                                       flags, kOwnFile);
  }
  posix_spawn_file_actions_t actions_{};
};

// A child hears the signals that this program waits for (undo.hpp).
class ChildSignals {
 public:
  ChildSignals() {
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~ChildSignals() { ::posix_spawnattr_destroy(&attributes_); }
  ChildSignals(const ChildSignals&) = delete;
  ChildSignals& operator=(const ChildSignals&) = delete;

  [[nodiscard]] const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// All of it is read, so that the child is never held up; its end is kept.
std::string read_to_the_end(int fd) {
  std::string text;
  std::array<char, kMostSaid> piece{};
  for (;;) {
    const ssize_t count = ::read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(piece.data(), static_cast<size_t>(count));
    if (text.size() > kMostSaid) text.erase(0, text.size() - kMostSaid);
  }
  return text;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Status run_kubectl(const ClusterOptions& cluster, const std::vector<std::string>& arguments,
                   const KubectlFiles& files) {
  std::vector<std::string> line = command_line(cluster, arguments);
  std::vector<char*> argv;
  argv.reserve(line.size() + 1);
  for (std::string& word : line) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<int, 2> said{};
  if (::pipe2(said.data(), O_CLOEXEC) != 0)
    return fail(ErrorCode::kIo, std::string("making a pipe: ") + std::strerror(errno));
  pid_t child = 0;
  const ChildFiles child_files(files, said[1]);
  const ChildSignals signals;
  const int failed = ::posix_spawnp(&child, "kubectl", child_files.actions(), signals.attributes(),
                                    argv.data(), environ);
  ::close(said[1]);
  if (failed != 0) {
    ::close(said[0]);
    return fail(
        failed == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        std::string("running kubectl, which has to be on the PATH: ") + std::strerror(failed));
  }
  const std::string text = read_to_the_end(said[0]);
  ::close(said[0]);
  if (const int status = wait_for(child); status != 0) {
    return fail(ErrorCode::kIo, "kubectl " + arguments.front() + " ended with " +
                                    std::to_string(status) + ": " + std::string(trim(text)));
  }
  return {};
}

}  // namespace compilecache::cli
