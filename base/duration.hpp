#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/error.hpp"

// Durations as Kubernetes and Go write them: "30s", "1h30m", "250ms", "720h". Source: Go's
// time.ParseDuration; negative durations and "d" are refused, because no setting
// gives them a meaning.

namespace compilecache {

Result<std::chrono::milliseconds> parse_duration(std::string_view text);

// "1h30m", "30s", "250ms", "0s".
std::string format_duration(std::chrono::milliseconds duration);

}  // namespace compilecache
