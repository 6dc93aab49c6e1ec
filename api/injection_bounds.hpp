#pragma once

#include <cstddef>

#include "api/agent_config.hpp"

// Bounds of the annotation compilecache.dev/status. The webhook writes it, but so may anyone who
// writes pods, and the operator keeps it for every pod with our label. The webhook injects no pod
// whose status would be beyond them, so that a status beyond them is no injection.
//
//   if (text.size() > kLongestInjectionStatus) return;         // before it is parsed
//   if (exceeds_bounds(status)) return;
//   drop_removal_lists(status);                                // what is left is small
//
// Pure; safe from any thread.

namespace compilecache::api {

// Enough for 32 containers with all variables of all frameworks.
inline constexpr size_t kLongestInjectionStatus = 128U << 10;
// The most containers that get the cache. Each gets all variables, and a node has 16 GPUs at most.
inline constexpr size_t kMostInjectedContainers = 32;
// The most memory that what the operator needs of a status takes beyond the struct itself. Some 500
// bytes are usual; 32 containers and two dozen volumes with the longest names take half of this.
inline constexpr size_t kMostInjectionMemory = 8U << 10;

// Whether the parts that the operator needs are larger than in any injection.
bool exceeds_bounds(const InjectionStatus& status);

// Drops what only the webhook and people need: by what name an injection is taken out again, and
// what was left off. Whether bounds are exceeded stays the same.
void drop_removal_lists(InjectionStatus& status);

}  // namespace compilecache::api
