#include "measure.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace compilecache::bench {
namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Fields 14 and 15 of /proc/PID/stat, in clock ticks; the second field is in brackets.
double cpu_of(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  double ticks = 0;
  for (int number = 3; number <= 15 && fields >> field; ++number) {
    if (number >= 14) ticks += std::stod(field);
  }
  return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double resident_mib(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmRSS:")) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

void drop_page_cache() {
  std::ofstream out("/proc/sys/vm/drop_caches");
  if (!(out << "3\n") || !out.flush())
    throw std::runtime_error("emptying the page cache: only root may, run without --cold");
}

pid_t start(const std::string& command, const std::map<std::string, std::string>& variables,
            int number) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  for (const auto& [name, value] : variables) {
    // Each of several at once has a destination of its own.
    const std::string own = name == "DST" ? value + "-" + std::to_string(number) : value;
    ::setenv(name.c_str(), own.c_str(), 1);
  }
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

}  // namespace

double Times::minimum() const { return sorted(seconds).front(); }
double Times::median() const { return sorted(seconds)[seconds.size() / 2]; }
double Times::maximum() const { return sorted(seconds).back(); }
double Times::cpu() const { return sorted(cpu_seconds)[cpu_seconds.size() / 2]; }

void measure(Times& times, const std::string& command,
             const std::map<std::string, std::string>& variables, int at_once, bool cold) {
  ::sync();
  if (cold) drop_page_cache();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int i = 0; i < at_once; ++i) children.push_back(start(command, variables, i));
  bool good = true;
  double cpu = 0;
  for (const pid_t child : children) {
    int status = 0;
    rusage used{};
    good = ::wait4(child, &status, 0, &used) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0 && good;
    cpu += seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    times.peak_kib = std::max(times.peak_kib, used.ru_maxrss);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!good) throw std::runtime_error("failed: " + command);
  times.seconds.push_back(took.count());
  times.cpu_seconds.push_back(cpu);
}

Waiting measure_waiting(const std::string& command,
                        const std::map<std::string, std::string>& variables, WaitingTime time) {
  const pid_t child = start("exec " + command, variables, 0);
  ::sleep(time.settling);
  const double before = cpu_of(child);
  ::sleep(time.measured);
  const Waiting waiting{resident_mib(child), (cpu_of(child) - before) * 100 / time.measured};
  ::kill(child, SIGTERM);
  ::waitpid(child, nullptr, 0);
  return waiting;
}

}  // namespace compilecache::bench
