#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/quantity.hpp"

// Requests and limits of the loader and the saver, as a CompileCache (spec.resources) and a pod
// (the annotation compilecache.dev/resources) may set them in place of the operator's settings.
//
//   AgentResources of_pod = cache.spec.resources;
//   of_pod.save.limits.memory = Quantity{1 << 30};                    // in thousandths
//   if (const std::string why = trouble_of(of_pod); !why.empty()) ... // "save.limits.memory ..."
//
// Pure functions; safe from any thread.

namespace compilecache::api {

struct ResourceAmounts {
  std::optional<Quantity> cpu, memory, ephemeral_storage;  // nothing: as without it
  bool operator==(const ResourceAmounts&) const = default;
};

struct ContainerWish {
  ResourceAmounts requests, limits;
  bool operator==(const ContainerWish&) const = default;
};

struct AgentResources {
  ContainerWish load, save;
  bool operator==(const AgentResources&) const = default;
};

// The names, as in a container's requests.
inline constexpr std::array<std::pair<const char*, std::optional<Quantity> ResourceAmounts::*>, 3>
    kResourceNames{{{"cpu", &ResourceAmounts::cpu},
                    {"memory", &ResourceAmounts::memory},
                    {"ephemeral-storage", &ResourceAmounts::ephemeral_storage}}};

// The amount of the resource of that name; nothing for another name.
std::optional<Quantity> amount_of(const ResourceAmounts& amounts, std::string_view resource);

// The least that a limit may be. Below it the loader or the saver could not do its work, would
// delay the pod's start, or would have the pod evicted by its logs.
inline constexpr Quantity kLeastMemoryLimit{int64_t{128} * 1024 * 1024 * 1000};
inline constexpr Quantity kLeastStorageLimit = kLeastMemoryLimit;
inline constexpr Quantity kLeastLoadCpuLimit{100};
inline constexpr Quantity kLeastSaveCpuLimit{10};
// The most of anything, beyond which a unit is missing or wrong: 64 processors, 64Gi, 1Ti.
inline constexpr Quantity kMostCpu{64'000};
inline constexpr Quantity kMostMemory{int64_t{64} * 1024 * 1024 * 1024 * 1000};
inline constexpr Quantity kMostStorage{int64_t{1024} * 1024 * 1024 * 1024 * 1000};

// Why they cannot be used, naming the first that cannot; "" where they can: an amount out of the
// range above, or a limit below its request.
std::string trouble_of(const AgentResources& resources);

// `over` where it says something, else `base`.
AgentResources merged(const AgentResources& base, const AgentResources& over);

}  // namespace compilecache::api
