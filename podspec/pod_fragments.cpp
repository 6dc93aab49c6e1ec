#include "podspec/pod_fragments.hpp"

#include "base/json_writer.hpp"

namespace compilecache::podspec {

std::string to_json(const Variable& variable) {
  JsonWriter out;
  out.begin_object();
  out.field("name", variable.name);
  out.field("value", variable.value);
  out.end_object();
  return out.text();
}

std::string to_json(const Mount& mount) {
  JsonWriter out;
  out.begin_object();
  out.field("name", mount.volume);
  out.field("mountPath", mount.path);
  if (mount.read_only) out.field("readOnly", true);
  out.end_object();
  return out.text();
}

}  // namespace compilecache::podspec
