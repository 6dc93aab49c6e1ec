#include "tests/simulation/faults/shrink.hpp"

#include <algorithm>
#include <utility>

namespace compilecache::simulation {
namespace {

std::vector<Fault> without(const std::vector<Fault>& faults, size_t first, size_t count) {
  std::vector<Fault> rest(faults.begin(), faults.begin() + static_cast<std::ptrdiff_t>(first));
  const size_t next = std::min(first + count, faults.size());
  rest.insert(rest.end(), faults.begin() + static_cast<std::ptrdiff_t>(next), faults.end());
  return rest;
}

}  // namespace

std::vector<Fault> shrink(std::vector<Fault> failing, const Fails& fails, int tries) {
  size_t part = failing.size();
  while (part > 0 && !failing.empty()) {
    bool shorter = false;
    // From the end: what comes late is rarely the cause.
    for (size_t end = failing.size(); end > 0 && tries > 0; --tries) {
      const size_t first = end > part ? end - part : 0;
      std::vector<Fault> rest = without(failing, first, end - first);
      if (fails(rest)) {
        failing = std::move(rest);
        shorter = true;
      }
      end = std::min(first, failing.size());
    }
    if (tries <= 0) break;
    if (part == 1 && !shorter) break;
    part = part == 1 ? 1 : (part + 1) / 2;
  }
  return failing;
}

}  // namespace compilecache::simulation
