#include "api/outcomes.hpp"

#include <array>
#include <utility>

namespace compilecache::api {
namespace {

template <typename Enum, size_t N>
using Words = std::array<std::pair<Enum, std::string_view>, N>;

template <typename Enum, size_t N>
std::string_view word_of(const Words<Enum, N>& words, Enum value) {
  for (const auto& [key, word] : words) {
    if (key == value) return word;
  }
  return "";
}

template <typename Enum, size_t N>
std::optional<Enum> value_of(const Words<Enum, N>& words, std::string_view text) {
  for (const auto& [key, word] : words) {
    if (word == text) return key;
  }
  return std::nullopt;
}

constexpr Words<Outcome, 4> kOutcomes{{{Outcome::kSuccess, "SUCCESS"},
                                       {Outcome::kSkipped, "SKIPPED"},
                                       {Outcome::kError, "ERROR"},
                                       {Outcome::kDoesNotExist, "DOES_NOT_EXIST"}}};
constexpr Words<Match, 3> kMatches{
    {{Match::kNone, "none"}, {Match::kExact, "exact"}, {Match::kCompatible, "compatible"}}};
constexpr Words<Effect, 5> kEffects{{{Effect::kUnused, "unused"},
                                     {Effect::kFull, "full"},
                                     {Effect::kPartial, "partial"},
                                     {Effect::kNone, "none"},
                                     {Effect::kUnknown, "unknown"}}};
constexpr Words<Mode, 5> kModes{{{Mode::kReadWrite, "ReadWrite"},
                                 {Mode::kReadOnly, "ReadOnly"},
                                 {Mode::kRefresh, "Refresh"},
                                 {Mode::kDisabled, "Disabled"},
                                 {Mode::kForceCold, "ForceCold"}}};

}  // namespace

std::string_view to_string(Outcome outcome) { return word_of(kOutcomes, outcome); }
std::optional<Outcome> parse_outcome(std::string_view text) { return value_of(kOutcomes, text); }
std::string_view to_string(Match match) { return word_of(kMatches, match); }
std::optional<Match> parse_match(std::string_view text) { return value_of(kMatches, text); }
std::string_view to_string(Effect effect) { return word_of(kEffects, effect); }
std::optional<Effect> parse_effect(std::string_view text) { return value_of(kEffects, text); }
std::string_view to_string(Mode mode) { return word_of(kModes, mode); }
std::optional<Mode> parse_mode(std::string_view text) { return value_of(kModes, text); }

}  // namespace compilecache::api
