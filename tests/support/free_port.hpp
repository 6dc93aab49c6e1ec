#pragma once

#include <cstdint>

namespace compilecache::testing {

// A TCP port of the loopback, 10000 to 19999, that nobody has now and that this process was not
// given before. A port that the system chooses lies among those of outgoing connections:
// one of those can take it before a server does, and for long. tests/cluster uses 20000 to 29999.
// Throws std::runtime_error when there is none. Thread-safe.
uint16_t free_port();

}  // namespace compilecache::testing
