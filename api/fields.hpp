#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "api/json_fields.hpp"
#include "api/words.hpp"
#include "base/duration.hpp"
#include "base/json_writer.hpp"
#include "base/quantity.hpp"

// A struct's fields as a table: their names in JSON, once for reading, checking and writing.
//
//   struct Lamp {
//     int watts = 0;
//     std::string color;
//   };
//   template <>
//   inline constexpr auto kFields<Lamp> = std::tuple{
//       field_of("watts", &Lamp::watts, at_least_one), field_of("color", &Lamp::color)};
//
// and then
//
//   FieldReader reader("spec");
//   reader.read(json, lamp);                     // what is absent or null keeps its default
//   if (!reader.error().empty()) ...             // "spec.watts: must be at least 1"
//   write_value(out, lamp, Write::kUnusual);     // a JSON object; reading it gives the same struct
//
// Structs with a table may be members of each other, in std::optional, in std::vector, and the
// alternatives of a std::variant: {"volume": {...}} is the one whose kKind is "volume".
// std::chrono::milliseconds are durations ("30s"), uint64_t are quantities of bytes ("1Gi"),
// Quantity is one of any kind ("100m"), enumerations their words (words.hpp); an unknown word is
// refused unless it means something. Internal to api/.

namespace compilecache::api {

// Why a value cannot be used, or "".
template <typename T>
using Check = std::string (*)(const T& value);

template <typename Object, typename T>
struct Field {
  const char* name;
  T Object::*member;
  Check<T> check = nullptr;
};

template <typename Object, typename T>
constexpr Field<Object, T> field_of(const char* name, T Object::*member,
                                    std::type_identity_t<Check<T>> check = nullptr) {
  return {name, member, check};
}

// The table of T: a std::tuple of Fields.
template <typename T>
inline constexpr auto kFields = nullptr;

// The name of T among the alternatives of a variant.
template <typename T>
inline constexpr const char* kKind = nullptr;

template <typename T>
concept Struct = !std::same_as<std::remove_const_t<decltype(kFields<T>)>, std::nullptr_t>;

class FieldReader {
 public:
  // `path`: what messages begin with; "" for none.
  explicit FieldReader(std::string path) : path_(std::move(path)) {}

  // The first thing that is wrong, with the path of its field; later reads do nothing.
  [[nodiscard]] const std::string& error() const { return error_; }
  void refuse(const std::string& why) {
    if (error_.empty()) error_ = (path_.empty() ? "" : path_ + ": ") + why;
  }

  template <Struct T>
  void read(const nlohmann::json& from, T& into) {
    if (!from.is_object()) return refuse("must be an object, not " + from.dump());
    const auto read_one = [&](const auto& field) {
      auto& value = into.*field.member;
      const size_t outer = path_.size();
      if (!path_.empty()) path_ += '.';
      path_ += field.name;
      const auto found = from.find(field.name);
      if (found != from.end() && !found->is_null() && error_.empty()) read(*found, value);
      if (field.check != nullptr && error_.empty()) {
        if (const std::string why = field.check(value); !why.empty()) refuse(why);
      }
      path_.resize(outer);
    };
    std::apply([&](const auto&... field) { (read_one(field), ...); }, kFields<T>);
  }
  template <typename T>
  void read(const nlohmann::json& from, std::optional<T>& into) {
    read(from, into.emplace());
  }
  template <typename T>
  void read(const nlohmann::json& from, std::vector<T>& into) {
    if (!from.is_array()) return refuse_type(from);
    into.clear();
    for (const nlohmann::json& item : from) read(item, into.emplace_back());
  }
  template <typename... Kinds>
  void read(const nlohmann::json& from, std::variant<Kinds...>& into) {
    if (!from.is_object()) return refuse_type(from);
    bool known = false;
    const auto try_kind = [&]<typename Kind>(std::type_identity<Kind>) {
      const auto found = from.find(kKind<Kind>);
      if (found == from.end()) return;
      known = true;
      read(*found, into.template emplace<Kind>());
    };
    (try_kind(std::type_identity<Kinds>()), ...);
    if (!known) refuse("is of no known kind: " + from.dump());
  }
  void read(const nlohmann::json& from, std::chrono::milliseconds& into) {
    read_text(from, into, [](const std::string& text) { return parse_duration(text); });
  }
  void read(const nlohmann::json& from, uint64_t& into) {
    read_text(from, into, [](const std::string& text) { return parse_bytes(text); });
  }
  void read(const nlohmann::json& from, Quantity& into) {
    read_text(from, into, [](const std::string& text) { return parse_quantity(text); });
  }
  void read(const nlohmann::json& from, std::string& into) { read_value(from, into); }
  template <Worded Enum>
  void read(const nlohmann::json& from, Enum& into) {
    std::string word;
    read_value(from, word);
    if (!error_.empty()) return;
    if (const auto known = parse_word<Enum>(word)) {
      into = *known;
    } else if constexpr (requires { Enum{kUnknownMeans<Enum>}; }) {
      into = kUnknownMeans<Enum>;
    } else {
      refuse("\"" + word + "\" is none of " + all_words<Enum>());
    }
  }
  void read(const nlohmann::json& from, bool& into) { read_value(from, into); }
  void read(const nlohmann::json& from, std::map<std::string, std::string>& into) {
    read_value(from, into);
  }
  void read(const nlohmann::json& from, std::signed_integral auto& into) {
    if (!from.is_number_integer()) return refuse("must be a whole number, not " + from.dump());
    const bool fits =
        from.is_number_unsigned()
            ? std::in_range<std::remove_reference_t<decltype(into)>>(from.get<uint64_t>())
            : std::in_range<std::remove_reference_t<decltype(into)>>(from.get<int64_t>());
    if (!fits) return refuse("is out of range: " + from.dump());
    from.get_to(into);
  }

 private:
  void refuse_type(const nlohmann::json& value) { refuse("has the wrong type: " + value.dump()); }
  template <typename T>
  void read_value(const nlohmann::json& from, T& into) {
    try {
      from.get_to(into);
    } catch (const nlohmann::json::exception&) {
      refuse_type(from);
    }
  }
  // Quantities may be written as plain numbers.
  template <typename T, typename Parse>
  void read_text(const nlohmann::json& from, T& into, const Parse& parse) {
    std::string text;
    if (from.is_number_integer()) {
      text = from.dump();
    } else {
      read_value(from, text);
    }
    if (!error_.empty()) return;
    if (const auto parsed = parse(text)) {
      into = *parsed;
    } else {
      refuse(parsed.error().message);
    }
  }

  std::string path_;
  std::string error_;
};

// kUnusual leaves out what has its default, so that a text that is in every pod stays short.
enum class Write { kAll, kUnusual };

template <typename T>
void write_value(JsonWriter& out, const T& value, Write) requires requires {
  out.value(value);
}
{ out.value(value); }
inline void write_value(JsonWriter& out, const std::chrono::milliseconds& value, Write) {
  out.value(format_duration(value));
}
template <Worded Enum>
void write_value(JsonWriter& out, const Enum& value, Write) {
  out.value(to_string(value));
}
template <Struct T>
void write_value(JsonWriter& out, const T& object, Write which);
template <Struct T>
void write_value(JsonWriter& out, const std::vector<T>& list, Write which) {
  out.begin_array();
  for (const T& item : list) write_value(out, item, which);
  out.end_array();
}
template <typename... Kinds>
void write_value(JsonWriter& out, const std::variant<Kinds...>& place, Write which) {
  out.begin_object();
  std::visit(
      [&]<typename Kind>(const Kind& kind) {
        out.key(kKind<Kind>);
        write_value(out, kind, which);
      },
      place);
  out.end_object();
}
template <typename T>
void write_value(JsonWriter& out, const std::optional<T>& value, Write which) {
  write_value(out, *value, which);
}

template <Struct T>
void write_value(JsonWriter& out, const T& object, Write which) {
  static const T usual{};
  out.begin_object();
  const auto write_one = [&](const auto& field) {
    const auto& value = object.*field.member;
    bool leave_out = which == Write::kUnusual && value == usual.*field.member;
    if constexpr (requires { value.has_value(); }) leave_out = leave_out || !value.has_value();
    if (leave_out) return;
    out.key(field.name);
    write_value(out, value, which);
  };
  std::apply([&](const auto&... field) { (write_one(field), ...); }, kFields<T>);
  out.end_object();
}

}  // namespace compilecache::api
