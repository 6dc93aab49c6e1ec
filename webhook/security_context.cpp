#include "webhook/security_context.hpp"

#include <vector>

#include "base/json_writer.hpp"

namespace compilecache::webhook {

std::string agent_security_context(const Json& chosen_container, const Json& pod) {
  JsonWriter out;
  out.begin_object();
  out.field("allowPrivilegeEscalation", false);
  out.field("readOnlyRootFilesystem", true);
  out.key("capabilities");
  out.begin_object();
  out.field("drop", std::vector<std::string>{"ALL"});
  out.end_object();
  const Json& theirs = object_member(chosen_container, "securityContext");
  for (const char* field : {"runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions"}) {
    if (const Json& value = member(theirs, field); !value.IsNull()) {
      out.raw_field(field, to_text(value));
    }
  }
  // Only where the user's containers bring one each: elsewhere the pod's is in force, or none is
  // asked for, and some clusters refuse what they did not expect.
  const Json& of_pod = object_member(spec_of(pod), "securityContext");
  if (has_member(theirs, "seccompProfile") && !has_member(of_pod, "seccompProfile")) {
    out.key("seccompProfile");
    out.begin_object();
    out.field("type", "RuntimeDefault");
    out.end_object();
  }
  out.end_object();
  return out.text();
}

}  // namespace compilecache::webhook
