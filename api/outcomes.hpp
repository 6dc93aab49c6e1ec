#pragma once

#include "api/words.hpp"
#include "frameworks/worth.hpp"

// The results of loads and saves, and their effect: the words that users see in the
// status, in metrics, in Events, in logs and in the control directory. One spelling everywhere.

namespace compilecache::api {

// The result of a load or a save, as in status.json and in the control directory.
enum class Outcome { kSuccess, kSkipped, kError, kDoesNotExist };
template <>
inline constexpr auto kWords<Outcome> =
    std::to_array<Word<Outcome>>({{Outcome::kSuccess, "SUCCESS"},
                                  {Outcome::kSkipped, "SKIPPED"},
                                  {Outcome::kError, "ERROR"},
                                  {Outcome::kDoesNotExist, "DOES_NOT_EXIST"}});

// How well the archive that a pod was given fits its key.
enum class Match { kNone, kExact, kCompatible };
template <>
inline constexpr auto kWords<Match> = std::to_array<Word<Match>>(
    {{Match::kNone, "none"}, {Match::kExact, "exact"}, {Match::kCompatible, "compatible"}});

// Who named the archive to a loader: the operator, or the index on the volume.
enum class LoadSource { kOperator, kIndex };
template <>
inline constexpr auto kWords<LoadSource> = std::to_array<Word<LoadSource>>(
    {{LoadSource::kOperator, "operator"}, {LoadSource::kIndex, "index"}});

// The result of a pod's load, as it is counted: in the CompileCache's status and in
// compilecache_loads_total.
enum class LoadOutcome { kExact, kCompatible, kMissing, kFailed };
template <>
inline constexpr auto kWords<LoadOutcome> =
    std::to_array<Word<LoadOutcome>>({{LoadOutcome::kExact, "exact"},
                                      {LoadOutcome::kCompatible, "compatible"},
                                      {LoadOutcome::kMissing, "none", "missing"},
                                      {LoadOutcome::kFailed, "failed"}});
// Whether the pod was given an archive.
constexpr bool is_warm(LoadOutcome load) {
  return load == LoadOutcome::kExact || load == LoadOutcome::kCompatible;
}

// The result of a pod's save, as it is counted: in the CompileCache's status and in
// compilecache_saves_total.
enum class SaveOutcome { kCommitted, kUnchanged, kRefused, kFailed };
template <>
inline constexpr auto kWords<SaveOutcome> =
    std::to_array<Word<SaveOutcome>>({{SaveOutcome::kCommitted, "committed"},
                                      {SaveOutcome::kUnchanged, "unchanged"},
                                      {SaveOutcome::kRefused, "refused"},
                                      {SaveOutcome::kFailed, "failed"}});

// Whether what was loaded was of use to the pod (frameworks/worth.hpp).
using frameworks::Effect;
template <>
inline constexpr auto kWords<Effect> = std::to_array<Word<Effect>>({{Effect::kUnused, "unused"},
                                                                    {Effect::kFull, "full"},
                                                                    {Effect::kPartial, "partial"},
                                                                    {Effect::kNone, "none"},
                                                                    {Effect::kUnknown, "unknown"}});

// How a sweep Job ended, in compilecache_sweeps_total.
enum class SweepOutcome { kDone, kFailed };
template <>
inline constexpr auto kWords<SweepOutcome> = std::to_array<Word<SweepOutcome>>(
    {{SweepOutcome::kDone, "done"}, {SweepOutcome::kFailed, "failed"}});

}  // namespace compilecache::api
