#pragma once

#include <chrono>

#include "archive/checkpoint.hpp"

namespace compilecache::agent {

// Whether a load that goes on at its present rate would exceed its budget. It is never true in the
// first quarter of the budget; by then the rate is known, and the rest of the time is saved for the
// pod. Pure.
bool comes_too_late(std::chrono::duration<double> passed, std::chrono::duration<double> budget,
                    const archive::Progress& progress);

}  // namespace compilecache::agent
