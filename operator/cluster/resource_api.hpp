#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"

// Which version of resource.k8s.io, with ResourceClaims and ResourceSlices, an API server has.

namespace compilecache::controller {

// The best of v1 (Kubernetes 1.34), v1beta2 (1.33) and v1beta1 (1.32); nothing where it serves none
// of them. Asks the API server.
Result<std::optional<std::string>> served_resource_api(const kube::Client& client);

}  // namespace compilecache::controller
