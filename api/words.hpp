#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

// An enumeration whose values have words, which agents, the operator, users and Prometheus read.
// The one table of an enumeration stands beside it:
//
//   enum class Answer { kYes, kNo };
//   template <>
//   inline constexpr auto kWords<Answer> =
//       std::to_array<Word<Answer>>({{Answer::kYes, "yes"}, {Answer::kNo, "no"}});
//
// and then
//
//   to_string(Answer::kYes);       // "yes"
//   parse_word<Answer>("yes");     // Answer::kYes; nothing for a word that is not in the table
//
// Agents and operators of different releases talk to each other while one replaces the other, so a
// word may be unknown. The type of the field gives its meaning then: std::optional<Answer> is
// empty, as for the empty word, which means "nothing". A plain field of an
// enumeration that has kUnknownMeans has that value. Either is the safe side. A table has the
// values in the order of the enumeration. Pure; safe from any thread.

namespace compilecache::api {

template <typename Enum>
struct Word {
  Enum value;
  std::string_view word;
  // In metrics, and as the counter's name in statuses, where that is another one.
  std::string_view metric = word;
};

template <typename Enum>
inline constexpr std::nullptr_t kWords = nullptr;

// The treatment of a word that only another release knows.
template <typename Enum>
inline constexpr std::nullptr_t kUnknownMeans = nullptr;

template <typename Enum>
concept Worded =
    std::is_enum_v<Enum> && !std::is_null_pointer_v<std::remove_const_t<decltype(kWords<Enum>)>>;

template <Worded Enum>
constexpr std::string_view to_string(Enum value) {
  for (const auto& known : kWords<Enum>) {
    if (known.value == value) return known.word;
  }
  return "";
}

// "" for nothing.
template <Worded Enum>
constexpr std::string_view to_string(const std::optional<Enum>& value) {
  return value ? to_string(*value) : "";
}

template <Worded Enum>
constexpr std::string_view metric_label(Enum value) {
  for (const auto& known : kWords<Enum>) {
    if (known.value == value) return known.metric;
  }
  return "";
}

template <Worded Enum>
constexpr std::optional<Enum> parse_word(std::string_view word) {
  for (const auto& known : kWords<Enum>) {
    if (known.word == word) return known.value;
  }
  return std::nullopt;
}

// "OnChange, Once, Never": what is allowed, for messages.
template <Worded Enum>
std::string all_words() {
  std::string all;
  for (const auto& known : kWords<Enum>) {
    if (!all.empty()) all += ", ";
    all += known.word;
  }
  return all;
}

}  // namespace compilecache::api
