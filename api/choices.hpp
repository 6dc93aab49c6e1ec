#pragma once

#include "api/words.hpp"

// What users choose for a pod or a CompileCache, word by word.

namespace compilecache::api {

// compilecache.dev/mode
enum class Mode { kReadWrite, kReadOnly, kRefresh, kDisabled, kForceCold };
template <>
inline constexpr auto kWords<Mode> = std::to_array<Word<Mode>>({{Mode::kReadWrite, "ReadWrite"},
                                                                {Mode::kReadOnly, "ReadOnly"},
                                                                {Mode::kRefresh, "Refresh"},
                                                                {Mode::kDisabled, "Disabled"},
                                                                {Mode::kForceCold, "ForceCold"}});
// In what our programs tell each other; in an annotation an unknown word is refused.
template <>
inline constexpr auto kUnknownMeans<Mode> = Mode::kReadWrite;

// spec.load.fallback
enum class LoadFallback { kCompatible, kExact };
template <>
inline constexpr auto kWords<LoadFallback> = std::to_array<Word<LoadFallback>>(
    {{LoadFallback::kCompatible, "Compatible"}, {LoadFallback::kExact, "Exact"}});

// spec.save.policy
enum class SavePolicy { kOnChange, kOnce, kNever };
template <>
inline constexpr auto kWords<SavePolicy> =
    std::to_array<Word<SavePolicy>>({{SavePolicy::kOnChange, "OnChange"},
                                     {SavePolicy::kOnce, "Once"},
                                     {SavePolicy::kNever, "Never"}});

// spec.delivery
enum class Delivery { kInitAndSidecar, kSidecar };
template <>
inline constexpr auto kWords<Delivery> = std::to_array<Word<Delivery>>(
    {{Delivery::kInitAndSidecar, "InitAndSidecar"}, {Delivery::kSidecar, "Sidecar"}});

}  // namespace compilecache::api
