#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

const json& member(const json& object, std::string_view name) {
  static const json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

const json& array_member(const json& object, std::string_view name) {
  static const json kEmpty = json::array();
  const json& found = member(object, name);
  return found.is_array() ? found : kEmpty;
}

const json& object_member(const json& object, std::string_view name) {
  static const json kEmpty = json::object();
  const json& found = member(object, name);
  return found.is_object() ? found : kEmpty;
}

std::string text_member(const json& object, std::string_view name) {
  const json& found = member(object, name);
  return found.is_string() ? found.get<std::string>() : std::string();
}

const json* find_named(const json& array, std::string_view name) {
  const json* last = nullptr;
  for (const json& item : array) {
    const json& item_name = member(item, "name");
    if (item_name.is_string() && item_name.get_ref<const std::string&>() == name) last = &item;
  }
  return last;
}

std::optional<std::string> annotation(const json& pod, std::string_view name) {
  const json& found = member(object_member(object_member(pod, "metadata"), "annotations"), name);
  if (!found.is_string()) return std::nullopt;
  return found.get<std::string>();
}

const json& spec_of(const json& pod) { return object_member(pod, "spec"); }
const json& containers_of(const json& pod) { return array_member(spec_of(pod), "containers"); }
const json& init_containers_of(const json& pod) {
  return array_member(spec_of(pod), "initContainers");
}

size_t text_size(const json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t size = 0;
  if (value.is_object()) {
    for (const auto& [name, item] : value.get_ref<const json::object_t&>()) {
      size += name.size() + text_size(item);
    }
  } else if (value.is_array()) {
    for (const json& item : value) size += text_size(item);
  }
  return size;
}

bool is_native_sidecar(const json& container) {
  return text_member(container, "restartPolicy") == "Always";
}

void append_to(json& object, const char* name, json value) {
  json& array = object[name];
  if (array.is_null()) array = json::array();
  array.push_back(std::move(value));
}

void drop_if_empty(json& object, const char* name) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_structured() && found->empty()) object.erase(found);
}

}  // namespace compilecache::webhook
