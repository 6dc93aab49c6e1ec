#include "measure.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace compilecache::bench {
namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
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

void measure(Times& times, const std::string& command,
             const std::map<std::string, std::string>& variables, int at_once, bool cold) {
  ::sync();
  if (cold) drop_page_cache();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<pid_t> children;
  for (int i = 0; i < at_once; ++i) children.push_back(start(command, variables, i));
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    rusage used{};
    good = ::wait4(child, &status, 0, &used) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0 && good;
    times.peak_kib = std::max(times.peak_kib, used.ru_maxrss);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!good) throw std::runtime_error("failed: " + command);
  times.seconds.push_back(took.count());
}

}  // namespace compilecache::bench
