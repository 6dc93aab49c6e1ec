#pragma once

#include <string>

#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "kube/client.hpp"

// Finds the installation's own registry: the Service of that name in the operator's namespace.
//
//   const auto found = find_own_registry(client, "compilecache-system");
//   if (found && found->installed()) ...
//
// Blocks on the API server; thread-safe.

namespace compilecache::controller {

// A registry that is not installed is no error, nor is one that we may not look for. kInvalid: its
// Service has no ClusterIP.
Result<api::OwnRegistry> find_own_registry(const kube::Client& client, const std::string& ns);

}  // namespace compilecache::controller
