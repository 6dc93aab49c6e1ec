#pragma once

#include <map>
#include <string>
#include <vector>

namespace compilecache::bench {

struct Times {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;  // user and system, of all processes
  long peak_kib = 0;                // of the largest process of any run

  [[nodiscard]] double minimum() const;
  [[nodiscard]] double median() const;
  [[nodiscard]] double maximum() const;
  [[nodiscard]] double cpu() const;  // the median
};

// Runs `command` in a shell with these variables, `at_once` times side by side, and adds how long
// all of it took. Everything written before is on the disk when it begins; `cold` also empties the
// page cache, which only root may. Throws std::runtime_error when the command fails.
void measure(Times& times, const std::string& command,
             const std::map<std::string, std::string>& variables, int at_once, bool cold);

struct Waiting {
  double resident_mib = 0;
  double cpu_percent = 0;  // of one core
};
struct WaitingTime {
  unsigned settling;  // not measured: a saver's pauses grow from one second to a minute
  unsigned measured;
};
// What a process that waits takes. Ends it with SIGTERM.
Waiting measure_waiting(const std::string& command,
                        const std::map<std::string, std::string>& variables, WaitingTime time);

}  // namespace compilecache::bench
