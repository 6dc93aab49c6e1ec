#include "cli/cluster/operator_settings.hpp"

#include <nlohmann/json.hpp>

#include "cli/text/shipped_settings.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {

// The ConfigMap's name ends in a hash.
std::string read_settings_text(const kube::Client& client, const std::string& operator_namespace) {
  const auto maps = client.list_all(kube::resources::kConfigMaps, {.ns = operator_namespace});
  std::string text = shipped_settings(), newest;
  if (!maps) return text;
  for (const nlohmann::json& map : maps->at("items")) {
    const std::string made = kube::string_at(map, {"metadata", "creationTimestamp"});
    const std::string settings = kube::string_at(map, {"data", "settings.yaml"});
    if (settings.empty() || made < newest) continue;
    newest = made;
    text = settings;
  }
  return text;
}

}  // namespace compilecache::cli
