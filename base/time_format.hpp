#pragma once

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"

// Times as Kubernetes writes them: RFC 3339 in UTC, "2006-01-02T15:04:05Z".

namespace compilecache {

std::string format_time(WallTime time);
// With microseconds, as Leases want: "2006-01-02T15:04:05.000000Z".
std::string format_micro_time(WallTime time);
// Accepts a fraction and an offset; years from 1678 to 2261.
Result<WallTime> parse_time(std::string_view text);

}  // namespace compilecache
