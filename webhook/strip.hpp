#pragma once

#include <nlohmann/json.hpp>

// Takes our injection out of a pod: what the status annotation says we added, and nothing that has
// not one of our names. A pod without that annotation, or with one
// that cannot be read, comes back as it is. Pure.
//
// Used before injecting anew (another version of ours, changed settings, a container that came
// after us), and for pods made from the manifest of an injected one.

namespace compilecache::webhook {

nlohmann::json strip_injection(const nlohmann::json& pod);

}  // namespace compilecache::webhook
