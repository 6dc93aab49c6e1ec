#pragma once

#include <chrono>

namespace compilecache::api {

// How long a load may take: the timeout, but never longer than half of the compile time that the
// archive is known to save; where that is short, all of it, from 1 s up to 5 s. `compile_seconds`
// 0: not known. The operator tells loaders; where none answers they reckon it themselves.
std::chrono::milliseconds load_budget(std::chrono::milliseconds timeout, double compile_seconds);

}  // namespace compilecache::api
