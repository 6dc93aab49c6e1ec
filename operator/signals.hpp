#pragma once

#include <chrono>
#include <optional>

// SIGTERM and SIGINT as something to wait for, without a signal handler.

namespace compilecache::controller {

// Blocks both for this thread and all that it starts later. Also ignores SIGPIPE.
void block_signals();

// Waits for one of the two, for ever without `patience`; returns whether one came.
bool wait_for_signal(std::optional<std::chrono::milliseconds> patience);

}  // namespace compilecache::controller
