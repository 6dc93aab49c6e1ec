#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace compilecache {

// A source of random numbers, injected where behaviour depends on chance; must be thread-safe.
using Random = std::function<uint64_t()>;

// The kernel's random numbers, for programs.
Random system_random();

// Gives the same sequence for the same seed, for tests.
Random seeded_random(uint64_t seed);

// 16 hexadecimal digits, for nonces and temporary names.
std::string random_id(const Random& random);

// Uniform in [0, 1).
double random_fraction(const Random& random);

}  // namespace compilecache
