#pragma once

#include <string>

#include "kube/client.hpp"

namespace compilecache::cli {

// The text of the operator's settings file, of the newest ConfigMap of its namespace that has one;
// this release's where the user may not read it or there is none. Blocks on the API server.
//
//   auto settings = controller::parse_settings(read_settings_text(client, ns), "the settings");
std::string read_settings_text(const kube::Client& client, const std::string& operator_namespace);

}  // namespace compilecache::cli
