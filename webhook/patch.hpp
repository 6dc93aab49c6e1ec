#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "webhook/pod_json.hpp"

// A JSON Patch (RFC 6902), of the two operations that the injection needs. Pure.
//
//   Patch patch;
//   append(patch, container, "/spec/containers/0", "env", {R"({"name":"A","value":"1"})"});
//   auto applied = apply(patch_text(patch), pod, pod.GetAllocator());

namespace compilecache::webhook {

struct Edit {
  enum class Operation { kAdd, kRemove };
  Operation operation = Operation::kAdd;
  std::string path;
  std::string value;  // JSON text; of kRemove empty
};
using Patch = std::vector<Edit>;

// A member's name as part of a path: "a/b~c" is "a~1b~0c".
std::string escaped(std::string_view name);

// Puts a member into the object at `path`, over one of that name.
void put(Patch& patch, const std::string& path, std::string_view name, std::string value);
void remove(Patch& patch, std::string path);
// Appends to the object's array of that name, which is made once, as a whole, where there is none.
void append(Patch& patch, const Json& object, const std::string& path, const char* name,
            const std::vector<std::string>& values);
// The same at the array's beginning.
void prepend(Patch& patch, const Json& object, const std::string& path, const char* name,
             const std::vector<std::string>& values);

std::string patch_text(const Patch& patch);

// Applies the text of a patch, as an API server does. `memory`: of the object. kInternal, and an
// object that is half changed, when it does not apply: such a patch blocks the pod even under
// failurePolicy Ignore.
Status apply(const std::string& patch, Json& object, JsonMemory& memory);

}  // namespace compilecache::webhook
