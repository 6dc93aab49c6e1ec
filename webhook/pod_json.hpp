#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Reading a pod's JSON without surprises: what is absent or of another type reads as empty.
// Internal to this folder.

namespace compilecache::webhook {

using nlohmann::json;

// The member, or null.
const json& member(const json& object, std::string_view name);
// The member if it is an array (an object), else an empty one.
const json& array_member(const json& object, std::string_view name);
const json& object_member(const json& object, std::string_view name);
// The member if it is a string, else "".
std::string text_member(const json& object, std::string_view name);

// The array's object of that name, or nullptr. The last one, as Kubernetes does for variables.
const json* find_named(const json& array, std::string_view name);

std::optional<std::string> annotation(const json& pod, std::string_view name);

const json& spec_of(const json& pod);
const json& containers_of(const json& pod);
const json& init_containers_of(const json& pod);
// Bytes of all its names and texts together, near what it takes as a whole.
size_t text_size(const json& value);
// An init container that runs beside the app (restartPolicy Always).
bool is_native_sidecar(const json& container);

// Adds to the array `object[name]`, which is made where it is missing (or null).
void append_to(json& object, const char* name, json value);
// Removes an empty array or object that nobody needs to see.
void drop_if_empty(json& object, const char* name);

}  // namespace compilecache::webhook
