#include "tests/support/process.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/process.hpp>
#include <future>

namespace compilecache::testing {

namespace bp = boost::process;

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
                    context);
    context.run_for(limit);
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
