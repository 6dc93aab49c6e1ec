#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tests/bench/measuring/measure.hpp"

// What is to be reached, and whether it was.

namespace compilecache::bench {

struct Measured {
  Times save;
  Times load;
  Times loads;  // 16 at once
  Times delta;  // ours only
  uint64_t bytes = 0;
};

struct Results {
  std::map<std::pair<std::string, std::string>, Measured> by_set_and_peer;
  std::optional<double> scan_seconds;  // of the unchanged tree "many"
  std::optional<Waiting> waiting_small;
  std::optional<Waiting> waiting_many;
};

// Prints the results beside their targets.
void print_targets(const Results& results);

}  // namespace compilecache::bench
