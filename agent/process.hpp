#pragma once

#include "agent/termination.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"

namespace compilecache::agent {

// The clock, the random numbers and the end of an agent's process. Made in main.cpp alone, where
// the parts live as long as the process: the loader's threads may outlive everything else.
struct Process {
  const Clock& clock;
  const Random& random;
  Termination& termination;
};

}  // namespace compilecache::agent
