#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

namespace {

const Json& null() {
  static const Json kNull;
  return kNull;
}

const Json& empty_object() {
  static const Json kEmpty(rapidjson::kObjectType);
  return kEmpty;
}

}  // namespace

std::string to_text(const Json& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

const Json& member(const Json& object, std::string_view name) {
  if (!object.IsObject()) return null();
  const auto all = object.GetObject();
  for (auto at = all.MemberEnd(); at != all.MemberBegin();) {
    --at;
    if (text_of(at->name) == name) return at->value;
  }
  return null();
}

Json* find_member(Json& object, std::string_view name) {
  const Json& found = member(object, name);
  // A part of `object`, which is not const.
  return &found == &null() ? nullptr : const_cast<Json*>(&found);
}

bool has_member(const Json& object, std::string_view name) {
  return &member(object, name) != &null();
}

Json::ConstArray array_member(const Json& object, std::string_view name) {
  static const Json kEmpty(rapidjson::kArrayType);
  const Json& found = member(object, name);
  return (found.IsArray() ? found : kEmpty).GetArray();
}

const Json& object_member(const Json& object, std::string_view name) {
  const Json& found = member(object, name);
  return found.IsObject() ? found : empty_object();
}

Json::ConstObject members(const Json& object) {
  return (object.IsObject() ? object : empty_object()).GetObject();
}

std::string_view text_of(const Json& value) {
  if (!value.IsString()) return {};
  return {value.GetString(), value.GetStringLength()};
}

std::string_view text_member(const Json& object, std::string_view name) {
  return text_of(member(object, name));
}

std::string quantity_text(const Json& value) {
  return value.IsString() ? std::string(text_of(value)) : to_text(value);
}

bool is_true(const Json& value) { return value.IsBool() && value.GetBool(); }

const Json* find_named(Json::ConstArray array, std::string_view name) {
  const Json* last = nullptr;
  for (const Json& item : array) {
    const Json& item_name = member(item, "name");
    if (item_name.IsString() && text_of(item_name) == name) last = &item;
  }
  return last;
}

std::optional<std::string_view> annotation(const Json& pod, std::string_view name) {
  const Json& found = member(object_member(object_member(pod, "metadata"), "annotations"), name);
  if (!found.IsString()) return std::nullopt;
  return text_of(found);
}

const Json& spec_of(const Json& pod) { return object_member(pod, "spec"); }

Json::ConstArray containers_of(const Json& pod) { return array_member(spec_of(pod), "containers"); }

Json::ConstArray init_containers_of(const Json& pod) {
  return array_member(spec_of(pod), "initContainers");
}

size_t count_containers(const Json& pod) {
  return size_t{containers_of(pod).Size()} + init_containers_of(pod).Size();
}

bool is_init_container(const Json& pod, size_t index) { return index >= containers_of(pod).Size(); }

const Json& container_at(const Json& pod, size_t index) {
  const auto apps = containers_of(pod);
  return index < apps.Size()
             ? apps[static_cast<rapidjson::SizeType>(index)]
             : init_containers_of(pod)[static_cast<rapidjson::SizeType>(index - apps.Size())];
}

std::string container_path(const Json& pod, size_t index) {
  const size_t apps = containers_of(pod).Size();
  return index < apps ? "/spec/containers/" + std::to_string(index)
                      : "/spec/initContainers/" + std::to_string(index - apps);
}

const Json& controller_of(const Json& pod) {
  for (const Json& owner : array_member(object_member(pod, "metadata"), "ownerReferences")) {
    if (is_true(member(owner, "controller"))) return owner;
  }
  return null();
}

bool is_native_sidecar(const Json& container) {
  return text_member(container, "restartPolicy") == "Always";
}

}  // namespace compilecache::webhook
