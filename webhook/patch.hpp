#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "webhook/pod_json.hpp"

// A JSON Patch (RFC 6902) with the two operations that the injection needs. Pure.
//
//   Patch patch;
//   append(patch, container, "/spec/containers/0", "env", {R"({"name":"A","value":"1"})"});
//   auto applied = apply(patch_text(patch), pod, pod.GetAllocator());

namespace compilecache::webhook {

struct Edit {
  enum class Operation { kAdd, kRemove };
  Operation operation = Operation::kAdd;
  std::string path;
  std::string value;  // JSON text; empty for kRemove
};
using Patch = std::vector<Edit>;

// Escapes a member's name for a path: "a/b~c" becomes "a~1b~0c".
std::string escaped(std::string_view name);

// Adds a member to the object at `path`, or replaces the one of that name.
void put(Patch& patch, const std::string& path, std::string_view name, std::string value);
void remove(Patch& patch, std::string path);
// Appends to the object's array of that name; where there is none the whole array is added at once.
void append(Patch& patch, const Json& object, const std::string& path, const char* name,
            const std::vector<std::string>& values);
// Does the same before the array's element `at`, which it has or is its length.
void insert(Patch& patch, const Json& object, const std::string& path, const char* name, size_t at,
            const std::vector<std::string>& values);

std::string patch_text(const Patch& patch);

// Applies the text of a patch, as an API server does. `memory` is the object's allocator. Returns
// kInternal, and leaves the object half changed, when the patch does not apply: such a patch would
// block the pod even under failurePolicy Ignore.
Status apply(const std::string& patch, Json& object, JsonMemory& memory);

}  // namespace compilecache::webhook
