#pragma once

#include <algorithm>
#include <concepts>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/rapidjson.hpp"

// Writes JSON text from its beginning to its end, without building a tree.
//
//   JsonWriter out;
//   out.begin_object();
//   out.field("name", "web");
//   out.field("ports", std::vector<int>{80, 443});
//   out.end_object();
//   std::string text = out.text();                 // {"name":"web","ports":[80,443]}
//
// Texts must be UTF-8. One writer belongs to one thread.

namespace compilecache {

class JsonWriter {
 public:
  // `expected` is about how many bytes the text will have: text that outgrows its buffer is copied,
  // which also fragments memory.
  explicit JsonWriter(size_t expected = 256) : buffer_(nullptr, expected) {}

  void begin_object() { writer_.StartObject(); }
  void end_object() { writer_.EndObject(); }
  void begin_array() { writer_.StartArray(); }
  void end_array() { writer_.EndArray(); }
  void key(std::string_view name) { writer_.Key(name.data(), size_of(name)); }

  void value(std::string_view text) { writer_.String(text.data(), size_of(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(const char* text) { value(std::string_view(text)); }
  void value(std::same_as<bool> auto truth) { writer_.Bool(truth); }
  void value(std::integral auto number) requires(!std::same_as<decltype(number), bool>) {
    writer_.Int64(static_cast<int64_t>(number));
  }
  template <typename T>
  void value(const std::vector<T>& items) {
    begin_array();
    for (const T& item : items) value(item);
    end_array();
  }
  template <typename T>
  void value(const std::map<std::string, T>& items) {
    begin_object();
    for (const auto& [name, item] : items) field(name, item);
    end_object();
  }
  // Adds a value that is JSON text already.
  void raw(std::string_view json) {
    // The library only writes the comma here: it would copy the value byte by byte.
    writer_.RawValue(json.data(), 0, rapidjson::kObjectType);
    std::copy(json.begin(), json.end(), buffer_.Push(json.size()));
  }

  template <typename T>
  void field(std::string_view name, const T& content) {
    key(name);
    value(content);
  }
  void raw_field(std::string_view name, std::string_view json) {
    key(name);
    raw(json);
  }

  [[nodiscard]] std::string text() const { return {buffer_.GetString(), buffer_.GetSize()}; }

 private:
  static rapidjson::SizeType size_of(std::string_view text) {
    return static_cast<rapidjson::SizeType>(text.size());
  }

  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

}  // namespace compilecache
