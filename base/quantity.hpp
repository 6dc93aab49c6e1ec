#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

// Quantities as Kubernetes writes them: "50Gi", "1G", "500m", "2", "10Ei", "1e3". Source:
// apimachinery's resource.Quantity, whose signs, suffixes and exponents are all read. Fractions
// of the unit are rounded up.

namespace compilecache {

// Thousandths of the unit ("500m" is 500, "1Ki" is 1024000). As there, an amount above the largest
// of 64 bits is the largest. Negative ones are refused.
Result<int64_t> parse_quantity_milli(std::string_view text);

// An amount of a resource, in thousandths. For what people write for us: one that is too large is
// refused.
struct Quantity {
  int64_t milli = 0;
  auto operator<=>(const Quantity&) const = default;
};
Result<Quantity> parse_quantity(std::string_view text);

// "100m", "2", "128Mi".
std::string format_quantity(Quantity quantity);

// Whole units: bytes for storage and memory. Those that are too large are refused, too.
Result<uint64_t> parse_bytes(std::string_view text);

// The largest binary unit that loses nothing much: 1536 -> "1.5Ki", 1073741824 -> "1Gi". For
// people.
std::string format_bytes(uint64_t bytes);

}  // namespace compilecache
