#include "webhook/patch.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json_writer.hpp"
#include "base/strings.hpp"

namespace compilecache::webhook {

namespace {

using rapidjson::SizeType;

std::string array_text(const std::vector<std::string>& values) {
  return "[" + join(values, ",") + "]";
}

std::string unescaped(std::string_view token) {
  std::string name;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size();
    name += escape ? (token[++i] == '1' ? '/' : '~') : token[i];
  }
  return name;
}

std::optional<SizeType> index_in(const Json& array, std::string_view token) {
  SizeType index = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc() || end != token.data() + token.size()) return std::nullopt;
  if (index > array.Size()) return std::nullopt;
  return index;
}

// Where an operation takes place: the object or array, and the name or index in it.
struct Place {
  Json* parent = nullptr;  // nullptr: there is none
  std::string token;
};

Place find_place(Json& object, std::string_view path) {
  Place place{&object, {}};
  if (!path.starts_with('/')) return {};
  while (true) {
    path.remove_prefix(1);
    const size_t slash = path.find('/');
    place.token = unescaped(path.substr(0, slash));
    if (slash == std::string_view::npos) return place;
    path.remove_prefix(slash);
    if (place.parent->IsArray()) {
      const auto index = index_in(*place.parent, place.token);
      if (!index || *index == place.parent->Size()) return {};
      place.parent = &(*place.parent)[*index];
    } else {
      place.parent = find_member(*place.parent, place.token);
      if (place.parent == nullptr) return {};
    }
  }
}

bool add(const Place& place, Json& value, JsonMemory& memory) {
  Json& parent = *place.parent;
  if (parent.IsObject()) {
    if (Json* present = find_member(parent, place.token)) {
      *present = value;
      return true;
    }
    Json name(place.token.data(), static_cast<SizeType>(place.token.size()), memory);
    parent.AddMember(name, value, memory);
    return true;
  }
  if (!parent.IsArray()) return false;
  const auto index = place.token == "-" ? parent.Size() : index_in(parent, place.token);
  if (!index) return false;
  parent.PushBack(value, memory);
  std::rotate(parent.Begin() + *index, parent.End() - 1, parent.End());
  return true;
}

bool remove(const Place& place) {
  Json& parent = *place.parent;
  if (parent.IsObject()) {
    const Json* found = find_member(parent, place.token);
    const auto is_it = [&](const auto& item) { return &item.value == found; };
    const auto at = std::find_if(parent.MemberBegin(), parent.MemberEnd(), is_it);
    if (at != parent.MemberEnd()) parent.EraseMember(at);
    return found != nullptr;
  }
  if (!parent.IsArray()) return false;
  const auto index = index_in(parent, place.token);
  if (!index || *index == parent.Size()) return false;
  parent.Erase(parent.Begin() + *index);
  return true;
}

}  // namespace

std::string escaped(std::string_view name) {
  std::string result;
  for (const char c : name) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

void put(Patch& patch, const std::string& path, std::string_view name, std::string value) {
  patch.push_back({Edit::Operation::kAdd, path + "/" + escaped(name), std::move(value)});
}

void remove(Patch& patch, std::string path) {
  patch.push_back({Edit::Operation::kRemove, std::move(path), {}});
}

void append(Patch& patch, const Json& object, const std::string& path, const char* name,
            const std::vector<std::string>& values) {
  if (values.empty()) return;
  if (!member(object, name).IsArray()) return put(patch, path, name, array_text(values));
  for (const std::string& value : values) put(patch, path + "/" + name, "-", value);
}

void insert(Patch& patch, const Json& object, const std::string& path, const char* name, size_t at,
            const std::vector<std::string>& values) {
  if (values.empty()) return;
  if (!member(object, name).IsArray()) return put(patch, path, name, array_text(values));
  for (size_t i = 0; i < values.size(); ++i) {
    put(patch, path + "/" + name, std::to_string(at + i), values[i]);
  }
}

std::string patch_text(const Patch& patch) {
  size_t size = 2;
  for (const Edit& edit : patch) size += edit.path.size() + edit.value.size() + 64;
  JsonWriter out(size);
  out.begin_array();
  for (const Edit& edit : patch) {
    const bool is_add = edit.operation == Edit::Operation::kAdd;
    out.begin_object();
    out.field("op", is_add ? "add" : "remove");
    out.field("path", edit.path);
    if (is_add) out.raw_field("value", edit.value);
    out.end_object();
  }
  out.end_array();
  return out.text();
}

Status apply(const std::string& patch, Json& object, JsonMemory& memory) {
  const auto failed = [](std::string_view why) {
    return fail(ErrorCode::kInternal, "applying the patch: " + std::string(why));
  };
  JsonDocument edits(&memory);
  edits.Parse(patch.c_str());
  if (edits.HasParseError() || !edits.IsArray()) return failed("it is no list");
  for (Json& edit : edits.GetArray()) {
    const std::string_view path = text_member(edit, "path");
    const Place place = find_place(object, path);
    Json* value = find_member(edit, "value");
    const bool done =
        place.parent != nullptr && (value != nullptr ? add(place, *value, memory) : remove(place));
    if (!done) return failed("there is no " + std::string(path));
  }
  return {};
}

}  // namespace compilecache::webhook
