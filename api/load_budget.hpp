#pragma once

#include <chrono>

namespace compilecache::api {

// How long a load may take: the timeout, and never longer than half of the compile time that the
// archive is known to save; where that is short, all of it, from 1 s up to 5 s. 0 s: that is not
// known. The operator says so to loaders; where none answers they say so to themselves.
std::chrono::milliseconds load_budget(std::chrono::milliseconds timeout, double compile_seconds);

}  // namespace compilecache::api
