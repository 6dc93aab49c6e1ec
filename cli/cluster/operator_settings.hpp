#pragma once

#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"
#include "operator/settings/settings.hpp"

namespace compilecache::cli {

// The operator's settings, of the newest ConfigMap of its namespace that has some; this release's
// where the user may not read ConfigMaps there, or none has any. Fails where they cannot be read
// for another reason, or are not valid. Blocks on the API server.
//
//   const auto settings = read_settings(client, ns);
Result<controller::Settings> read_settings(const kube::Client& client,
                                           const std::string& operator_namespace);

}  // namespace compilecache::cli
