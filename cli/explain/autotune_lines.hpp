#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace compilecache::cli {

// How many seconds FlashInfer's autotuner took, by process (log_process.hpp), in the log of the
// engine that called it. It logs no duration, but its start and its end, each on a line of its own
// with the time (the sources of 0.5.3, 0.6.15 and 0.7.2). For example `(EngineCore pid=187)
// 2026-05-01 19:58:31,314 - INFO - autotuner.py:457 - flashinfer.jit: [Autotuner]: Autotuning
// process starts
// ...`. A start without an end counts as nothing. Pure.
std::map<std::string, double, std::less<>> autotune_seconds(
    const std::vector<std::string_view>& log);

}  // namespace compilecache::cli
