#pragma once

#include <optional>
#include <string_view>

#include "frameworks/worth.hpp"

// Words that users see in the status, in metrics, in Events and in logs, with one spelling for all.

namespace compilecache::api {

// What became of a load or a save, as in status.json and in the control directory.
enum class Outcome { kSuccess, kSkipped, kError, kDoesNotExist };
std::string_view to_string(Outcome outcome);  // "SUCCESS", "SKIPPED", "ERROR", "DOES_NOT_EXIST"
std::optional<Outcome> parse_outcome(std::string_view text);

// How well the archive that a pod was given fits its key.
enum class Match { kNone, kExact, kCompatible };
std::string_view to_string(Match match);  // "none", "exact", "compatible"
std::optional<Match> parse_match(std::string_view text);

// Whether what was loaded was of use to the pod (frameworks/worth.hpp).
using frameworks::Effect;
std::string_view to_string(Effect effect);  // "full", "partial", "none", "unused", "unknown"
std::optional<Effect> parse_effect(std::string_view text);

// The values of the annotation compilecache.dev/mode.
enum class Mode { kReadWrite, kReadOnly, kRefresh, kDisabled, kForceCold };
std::string_view to_string(Mode mode);
std::optional<Mode> parse_mode(std::string_view text);

}  // namespace compilecache::api
