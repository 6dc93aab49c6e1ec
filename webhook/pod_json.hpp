#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/rapidjson.hpp"

// Reading a pod's JSON without surprises: what is absent or of another type reads as empty.
// Internal to this folder; whoever hands in a pod gets one from webhook/read_json.hpp.
//
// RapidJSON's tree lies in one piece of memory that goes at once, where a tree of maps and strings
// costs three allocations for each member. Its own accessors trust their caller: use those here.

namespace compilecache::webhook {

using Json = rapidjson::Value;
using JsonDocument = rapidjson::Document;
// What trees are made in; it goes after them.
using JsonMemory = JsonDocument::AllocatorType;

std::string to_text(const Json& value);

// The member, or null. Of several with one name the last, as in other readers.
const Json& member(const Json& object, std::string_view name);
Json* find_member(Json& object, std::string_view name);  // nullptr: it has none
bool has_member(const Json& object, std::string_view name);
// The items of the member if it is an array, else none.
Json::ConstArray array_member(const Json& object, std::string_view name);
// The member if it is an object, else an empty one.
const Json& object_member(const Json& object, std::string_view name);
// The members of an object, none of anything else: for (const auto& [name, value] : members(x)).
Json::ConstObject members(const Json& object);
// The text of a string, else "". Lives as long as the tree.
std::string_view text_of(const Json& value);
std::string_view text_member(const Json& object, std::string_view name);
// A quantity is a text or a number: both as text.
std::string quantity_text(const Json& value);
bool is_true(const Json& value);

// The array's object of that name, or nullptr. The last one, as Kubernetes does for variables.
const Json* find_named(Json::ConstArray array, std::string_view name);

std::optional<std::string_view> annotation(const Json& pod, std::string_view name);

const Json& spec_of(const Json& pod);
Json::ConstArray containers_of(const Json& pod);
const Json& container_at(const Json& pod, size_t index);
Json::ConstArray init_containers_of(const Json& pod);
// The controller among the ownerReferences, or null.
const Json& controller_of(const Json& pod);
// An init container that runs beside the app (restartPolicy Always).
bool is_native_sidecar(const Json& container);

}  // namespace compilecache::webhook
