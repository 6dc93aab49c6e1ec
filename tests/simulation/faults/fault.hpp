#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "tests/simulation/installation/world.hpp"

// Faults as a list that can be written down, cut and replayed.
//
//   const std::vector<Fault> faults = draw_faults(days);   // inside run_scheduled()
//   start_faults(world, faults);
//   to_text(faults)    // "3600:api-down:30,7210:leader-killed:0"

namespace compilecache::simulation {

struct Fault {
  int64_t at_s = 0;  // seconds of the run
  std::string kind;
  int64_t amount = 0;  // what it means depends on the kind: mostly how many seconds it lasts
  bool operator==(const Fault&) const = default;
};

// The names of all kinds.
std::vector<std::string> fault_kinds();

// What the run's seed decides: each day has two thirds in which things fail, and a calm third. The
// same for `days` and for more days, as far as those go.
std::vector<Fault> draw_faults(int64_t days);

// "none" is no fault.
std::string to_text(const std::vector<Fault>& faults);
Result<std::vector<Fault>> parse_faults(std::string_view text);

// Makes them happen, each at its time. What is past is left out.
void start_faults(World& world, const std::vector<Fault>& faults);

}  // namespace compilecache::simulation
