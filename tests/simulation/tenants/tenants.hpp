#pragma once

#include <cstdint>

#include "tests/simulation/installation/world.hpp"

// Who uses the installation. Each actor draws from its own stream of
// chance, so that another actor more or less does not change what it does.

namespace compilecache::simulation {

// Namespaces with servers whose image changes each week; every second one deletes its CompileCache
// after some days and makes another.
void start_tenants(World& world, int64_t tenants, int64_t days);

// Many pods at once of an archive that is there, and more in the five minutes after; `which` picks
// the archive, and whether they bring a new image. With `damaged`, the archive's bytes in the
// registry are not what was saved, which the first of these pods finds out.
void start_crowd(World& world, uint64_t which, bool damaged);

}  // namespace compilecache::simulation
