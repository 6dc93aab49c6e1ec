#pragma once

#include <string>

#include "tests/simulation/installation/world.hpp"

// A namespace whose owner uses every right that SECURITY.md grants: pods and Jobs of any shape, and
// their tokens with messages that lie.

namespace compilecache::simulation {

constexpr char kHostileNamespace[] = "team-hostile";

// Begins after an hour and goes on to the end. What it does to its own namespace is its own
// business: invariants look at the others.
void start_hostile_tenant(World& world);

}  // namespace compilecache::simulation
