#include "cli/report/browser.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

namespace compilecache::cli {
namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::seconds kPatience{2};

// A browser prints nothing to the user's terminal.
class Silence {
 public:
  Silence() {
    ::posix_spawn_file_actions_init(&actions_);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", O_RDWR, 0);
    }
  }
  ~Silence() { ::posix_spawn_file_actions_destroy(&actions_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

  [[nodiscard]] const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

}  // namespace

Status open_in_browser(const std::string& file) {
  const std::string instead = "; open " + file + " yourself";
  std::string program = "xdg-open";
  std::string path = std::filesystem::absolute(file).string();
  const std::array<char*, 3> line{program.data(), path.data(), nullptr};
  const Silence silence;
  pid_t child = 0;
  const int failed =
      ::posix_spawnp(&child, "xdg-open", silence.actions(), nullptr, line.data(), environ);
  if (failed != 0) {
    return fail(failed == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                "running xdg-open: " + std::string(std::strerror(failed)) + instead);
  }
  // Some browsers only return when they are closed.
  for (auto waited = kLook; waited < kPatience; waited += kLook) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
      return fail(ErrorCode::kIo, "xdg-open found no browser" + instead);
    }
    std::this_thread::sleep_for(kLook);
  }
  return {};
}

}  // namespace compilecache::cli
