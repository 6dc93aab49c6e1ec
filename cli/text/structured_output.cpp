#include "cli/text/structured_output.hpp"

#include <nlohmann/json.hpp>

#include "cli/text/manifest_yaml.hpp"

namespace compilecache::cli {

std::string structured(const nlohmann::json& value, const std::string& output) {
  std::string text = value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  if (output == "yaml") return write_manifest(Manifest::parse(text));
  return text + "\n";
}

}  // namespace compilecache::cli
