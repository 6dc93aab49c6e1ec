#include "webhook/patch.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace compilecache::webhook {

using nlohmann::json;

namespace {

std::string escaped(const std::string& key) {
  std::string result;
  for (const char c : key) {
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

void diff(const json& from, const json& to, const std::string& path, json& patch);

void add(json& patch, const std::string& path, const json& value) {
  patch.push_back({{"op", "add"}, {"path", path}, {"value", value}});
}

void remove(json& patch, const std::string& path) {
  patch.push_back({{"op", "remove"}, {"path", path}});
}

void diff_objects(const json& from, const json& to, const std::string& path, json& patch) {
  for (const auto& [key, value] : from.items()) {
    const auto other = to.find(key);
    if (other == to.end()) {
      remove(patch, path + "/" + escaped(key));
    } else {
      diff(value, *other, path + "/" + escaped(key), patch);
    }
  }
  for (const auto& [key, value] : to.items()) {
    if (!from.contains(key)) add(patch, path + "/" + escaped(key), value);
  }
}

void diff_arrays(const json& from, const json& to, const std::string& path, json& patch) {
  const size_t shorter = std::min(from.size(), to.size());
  size_t head = 0;
  while (head < shorter && from[head] == to[head]) ++head;
  size_t tail = 0;
  while (tail < shorter - head && from[from.size() - 1 - tail] == to[to.size() - 1 - tail]) ++tail;
  const size_t removed = from.size() - head - tail;
  const size_t added = to.size() - head - tail;
  const auto at = [&](size_t index) { return path + "/" + std::to_string(index); };
  if (removed == added) {
    for (size_t i = head; i < head + removed; ++i) diff(from[i], to[i], at(i), patch);
    return;
  }
  for (size_t i = removed; i > 0; --i) remove(patch, at(head + i - 1));
  const bool at_end = tail == 0;
  for (size_t i = head; i < head + added; ++i) add(patch, at_end ? path + "/-" : at(i), to[i]);
}

void diff(const json& from, const json& to, const std::string& path, json& patch) {
  if (from == to) return;
  if (from.is_object() && to.is_object()) {
    diff_objects(from, to, path, patch);
  } else if (from.is_array() && to.is_array()) {
    diff_arrays(from, to, path, patch);
  } else {
    patch.push_back({{"op", "replace"}, {"path", path}, {"value", to}});
  }
}

}  // namespace

Result<json> make_patch(json from, const json& to) {
  const std::string doing = "making a patch";
  try {
    json patch = json::array();
    diff(from, to, "", patch);
    from.patch_inplace(patch);
    if (from == to) return patch;
    return fail(ErrorCode::kInternal, doing + ": it does not give what it should");
  } catch (const std::exception& exception) {
    return fail(ErrorCode::kInternal, doing + ": " + exception.what());
  }
}

}  // namespace compilecache::webhook
