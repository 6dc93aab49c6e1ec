#include "tests/support/process.hpp"

#include <linux/close_range.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/process.hpp>
#include <boost/process/extend.hpp>
#include <csignal>
#include <future>

namespace compilecache::testing {

namespace bp = boost::process;

namespace {

// Meanwhile what this thread writes to a program that has ended is an error, and not the end of
// the test too. The program itself is not to start with the signal blocked.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    sigtimedwait(&sigpipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
};

// In the new process, once its pipes are at 0 to 2: those of programs that other threads run would
// not end before this one does, had it their other ends.
constexpr auto keep_to_own_pipes = [](auto&) {
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
};

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const std::string& input,
                          std::chrono::seconds limit) {
  ProcessResult result;
  try {
    const auto program = command.front().find('/') == std::string::npos
                             ? bp::search_path(command.front())
                             : boost::filesystem::path(command.front());
    boost::asio::io_context context;
    std::future<std::string> out;
    std::future<std::string> err;
    bp::child child(program, bp::args(std::vector<std::string>(command.begin() + 1, command.end())),
                    bp::std_in<boost::asio::buffer(input), bp::std_out> out, bp::std_err > err,
                    context, bp::extend::on_exec_setup = keep_to_own_pipes);
    {
      const NoSigpipe guard;
      context.run_for(limit);
    }
    if (!context.stopped()) {
      child.terminate();
      result.err = "ran longer than " + std::to_string(limit.count()) + " s: " + command.front();
      return result;
    }
    child.wait();
    result.exit_code = child.exit_code();
    result.out = out.get();
    result.err = err.get();
  } catch (const std::exception& error) {
    result.err = "running " + command.front() + ": " + error.what();
  }
  return result;
}

}  // namespace compilecache::testing
