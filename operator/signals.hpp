#pragma once

#include <chrono>
#include <optional>

// The end of a program by SIGTERM or SIGINT, taken by whoever waits instead of a handler.

namespace compilecache::controller {

// For this thread and all that it starts from now on. Also ignores SIGPIPE.
void block_signals();

// Waits for one of the two, for ever without `patience`; whether one came.
bool wait_for_signal(std::optional<std::chrono::milliseconds> patience);

}  // namespace compilecache::controller
