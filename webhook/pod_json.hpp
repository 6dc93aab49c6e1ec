#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/rapidjson.hpp"

// Reads a pod's JSON without surprises: what is absent or of another type reads as empty. Internal
// to this folder; webhook/read_json.hpp makes the trees.
//
// RapidJSON's tree lies in one piece of memory that is freed at once, where a tree of maps and
// strings costs three allocations for each member. Its own accessors trust their caller: use these
// instead.

namespace compilecache::webhook {

using Json = rapidjson::Value;
using JsonDocument = rapidjson::Document;
// The allocator of trees; it must outlive them.
using JsonMemory = JsonDocument::AllocatorType;

std::string to_text(const Json& value);

// The member, or null. Where several have the name, the last counts, as in other readers.
const Json& member(const Json& object, std::string_view name);
Json* find_member(Json& object, std::string_view name);  // nullptr: it has none
bool has_member(const Json& object, std::string_view name);
// The items of the member if it is an array, else no items.
Json::ConstArray array_member(const Json& object, std::string_view name);
// The member if it is an object, else an empty one.
const Json& object_member(const Json& object, std::string_view name);
// The members of an object; no members for any other value. For use as: for (const auto& [name,
// value] : members(x)).
Json::ConstObject members(const Json& object);
// The text of a string, else "". The view is valid as long as the tree.
std::string_view text_of(const Json& value);
std::string_view text_member(const Json& object, std::string_view name);
// A quantity as text: in JSON it may be a string or a number.
std::string quantity_text(const Json& value);
bool is_true(const Json& value);

// The array's last object with that "name", as Kubernetes takes variables; nullptr when there is
// none.
const Json* find_named(Json::ConstArray array, std::string_view name);

std::optional<std::string_view> annotation(const Json& pod, std::string_view name);

const Json& spec_of(const Json& pod);
Json::ConstArray containers_of(const Json& pod);
Json::ConstArray init_containers_of(const Json& pod);
// The pod's containers, and after them its init containers, by one index.
size_t count_containers(const Json& pod);
const Json& container_at(const Json& pod, size_t index);
bool is_init_container(const Json& pod, size_t index);
// "/spec/containers/0", "/spec/initContainers/2"
std::string container_path(const Json& pod, size_t index);
// The controller among the ownerReferences, or null.
const Json& controller_of(const Json& pod);
// Whether it is an init container that runs beside the app (restartPolicy Always).
bool is_native_sidecar(const Json& container);

}  // namespace compilecache::webhook
