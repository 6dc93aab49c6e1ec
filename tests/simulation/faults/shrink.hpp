#pragma once

#include <functional>
#include <vector>

#include "tests/simulation/faults/fault.hpp"

// Finds a short list of faults that still fails, by leaving out ever smaller parts (ddmin), in at
// most `tries` runs. The result fails, and where the runs sufficed none of it can be left out.
//
//   const auto shortest = shrink(faults, [](const auto& some) { return fails(some); }, 100);

namespace compilecache::simulation {

using Fails = std::function<bool(const std::vector<Fault>&)>;

std::vector<Fault> shrink(std::vector<Fault> failing, const Fails& fails, int tries);

}  // namespace compilecache::simulation
