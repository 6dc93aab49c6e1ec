#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

// Quantities as Kubernetes writes them: "50Gi", "1G", "500m", "2". Source: apimachinery's
// resource.Quantity.

namespace compilecache {

// Thousandths of the unit ("500m" is 500, "1Ki" is 1024000); negative quantities are refused.
Result<int64_t> parse_quantity_milli(std::string_view text);

// An amount of a resource, in thousandths.
struct Quantity {
  int64_t milli = 0;
  auto operator<=>(const Quantity&) const = default;
};
Result<Quantity> parse_quantity(std::string_view text);

// "100m", "2", "128Mi".
std::string format_quantity(Quantity quantity);

// Whole units, rounded up: bytes for storage and memory.
Result<uint64_t> parse_bytes(std::string_view text);

// The largest binary unit that loses nothing much: 1536 -> "1.5Ki", 1073741824 -> "1Gi". For
// people.
std::string format_bytes(uint64_t bytes);

}  // namespace compilecache
