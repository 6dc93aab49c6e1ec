#include "webhook/security_context.hpp"

#include "webhook/pod_json.hpp"

namespace compilecache::webhook {

json agent_security_context(const json& chosen_container, const json& pod) {
  json context = {{"allowPrivilegeEscalation", false},
                  {"readOnlyRootFilesystem", true},
                  {"capabilities", {{"drop", json::array({"ALL"})}}}};
  const json& theirs = object_member(chosen_container, "securityContext");
  for (const char* field : {"runAsUser", "runAsGroup", "runAsNonRoot", "seLinuxOptions"}) {
    if (const json& value = member(theirs, field); !value.is_null()) context[field] = value;
  }
  // Only where the user's containers bring one each: elsewhere the pod's is in force, or none is
  // asked for, and some clusters refuse what they did not expect.
  const json& of_pod = object_member(object_member(pod, "spec"), "securityContext");
  if (theirs.contains("seccompProfile") && !of_pod.contains("seccompProfile")) {
    context["seccompProfile"] = {{"type", "RuntimeDefault"}};
  }
  return context;
}

}  // namespace compilecache::webhook
