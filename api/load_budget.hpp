#pragma once

#include <chrono>
#include <cstdint>

namespace compilecache::api {

// How long a load may take: the timeout, but never longer than half of the compile time that the
// archive is known to save. If that is short, all of it, from 1 s up to 5 s. `compile_seconds`
// 0: not known, so the size decides: 10 s, and one more for each 50 MB. The operator sends it to
// loaders. Without an answer they compute it themselves. Pure.
std::chrono::milliseconds load_budget(std::chrono::milliseconds timeout, double compile_seconds,
                                      int64_t compressed_bytes = 0);

}  // namespace compilecache::api
