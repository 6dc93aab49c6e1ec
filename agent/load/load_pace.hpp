#pragma once

#include <chrono>

#include "archive/checkpoint.hpp"

namespace compilecache::agent {

// Whether a load that went on like this would not be done within its budget. Said from a quarter of
// the budget on: that is enough to see it, and the rest is the pod's. Pure.
bool comes_too_late(std::chrono::duration<double> passed, std::chrono::duration<double> budget,
                    const archive::Progress& progress);

}  // namespace compilecache::agent
