#include "cli/cluster/operator_settings.hpp"

#include <nlohmann/json.hpp>

#include "cli/text/shipped_settings.hpp"
#include "kube/json.hpp"

namespace compilecache::cli {

// The ConfigMap's name ends in a hash.
Result<controller::Settings> read_settings(const kube::Client& client,
                                           const std::string& operator_namespace) {
  const auto maps = client.list_all(kube::resources::kConfigMaps, {.ns = operator_namespace});
  if (!maps && maps.error().code != ErrorCode::kForbidden) return unexpected(maps.error());
  std::string text = shipped_settings(), newest, source = "the settings of this release";
  for (const nlohmann::json& map : maps ? maps->at("items") : nlohmann::json::array()) {
    const std::string made = kube::string_at(map, {"metadata", "creationTimestamp"});
    const std::string settings = kube::string_at(map, {"data", "settings.yaml"});
    if (settings.empty() || made < newest) continue;
    newest = made;
    text = settings;
    source = "ConfigMap " + operator_namespace + "/" + kube::string_at(map, {"metadata", "name"});
  }
  return controller::parse_settings(text, source);
}

}  // namespace compilecache::cli
