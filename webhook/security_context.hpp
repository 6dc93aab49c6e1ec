#pragma once

#include <string>

#include "webhook/pod_json.hpp"

// Under whom the loader and the saver run. Pure.

namespace compilecache::webhook {

// JSON of the securityContext. User, group, SELinux label and non-root demand of the chosen
// container, so that both sides can work on the same files; what it leaves to the pod we leave to
// the pod, and the user to our image. Otherwise as little as the "restricted" Pod Security level
// asks for, which fits every other level too.
std::string agent_security_context(const Json& chosen_container, const Json& pod);

}  // namespace compilecache::webhook
