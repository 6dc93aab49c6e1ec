#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/bench/measuring/measure.hpp"

// What was measured, and what was to be reached.

namespace compilecache::bench {

struct Measured {
  Times times;
  std::vector<double> registry_cpu;  // seconds, for each process of a step
  double registry_peak_mib = 0;

  [[nodiscard]] double least_registry_cpu() const;
};
using Steps = std::map<std::string, Measured>;  // by name

struct Results {
  std::map<std::string, Steps> by_set;  // one at a time
  std::map<std::string, Steps> crowds;  // many at once, by set
  int at_once = 0;
  double idle_mib = 0;   // of a registry, after one request
  double after_mib = 0;  // half a minute after all the rest
};

// Prints the targets with what was measured. Of all rounds the fastest counts: what others do at
// the same time only makes them slower.
void print_targets(const Results& results);

}  // namespace compilecache::bench
