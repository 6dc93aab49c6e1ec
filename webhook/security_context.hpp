#pragma once

#include <nlohmann/json.hpp>

// Under whom the loader and the saver run. Pure.

namespace compilecache::webhook {

// User, group, SELinux label and non-root demand of the chosen container, so that both sides can
// work on the same files; what it leaves to the pod we leave to the pod, and the user to our image.
// Otherwise as little as the "restricted" Pod Security level asks for, which fits every other level
// too.
nlohmann::json agent_security_context(const nlohmann::json& chosen_container,
                                      const nlohmann::json& pod);

}  // namespace compilecache::webhook
