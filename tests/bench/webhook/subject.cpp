#include "subject.hpp"

#include <unistd.h>

#include <boost/process.hpp>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "load.hpp"

namespace compilecache::bench {
namespace bp = boost::process;
using Clock = std::chrono::steady_clock;

struct Subject::Impl {
  Clock::time_point started = Clock::now();
  bp::child child;

  [[nodiscard]] std::string proc(const char* file) const {
    std::ifstream in("/proc/" + std::to_string(child.id()) + "/" + file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
};

Subject::Subject(std::string name, uint16_t port, const std::vector<std::string>& command)
    : impl_(std::make_unique<Impl>()), name_(std::move(name)), port_(port) {
  impl_->child = bp::child(command.front(),
                           bp::args(std::vector<std::string>(command.begin() + 1, command.end())),
                           bp::std_out > bp::null, bp::std_err > bp::null, bp::std_in < bp::null);
}

Subject::Subject(Subject&&) noexcept = default;

Subject::~Subject() {
  if (impl_) impl_->child.terminate();
}

double Subject::wait_until_serving(const std::string& body) {
  while (!answers(port_, body)) {
    if (!impl_->child.running()) throw std::runtime_error(name_ + " ended at once");
    if (Clock::now() - impl_->started > std::chrono::minutes(1)) {
      throw std::runtime_error(name_ + " does not serve");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::chrono::duration<double, std::milli>(Clock::now() - impl_->started).count();
}

double Subject::cpu_seconds() const {
  const std::string stat = impl_->proc("stat");
  // After the program's name, which is in parentheses: state is the third field, utime and stime
  // are the fourteenth and fifteenth (proc(5)).
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double Subject::resident_megabytes() const {
  const std::string status = impl_->proc("status");
  const size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stod(status.substr(at + 6)) / 1024;
}

}  // namespace compilecache::bench
