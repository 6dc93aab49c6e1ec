#include "cli/text/structured_output.hpp"

#include <nlohmann/json.hpp>

#include "base/printable.hpp"
#include "cli/text/json_path.hpp"
#include "cli/text/manifest_yaml.hpp"

namespace compilecache::cli {
namespace {

constexpr std::string_view kJsonPath = "jsonpath=";

}  // namespace

std::string structured(const nlohmann::json& value, const std::string& output) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  // Both may be shown on a terminal, and hold what strangers wrote.
  if (output == "yaml") {
    return write_manifest(Manifest::parse(printable(value.dump(-1, ' ', false, replace))));
  }
  if (output.starts_with(kJsonPath)) {
    return json_path(value, output.substr(kJsonPath.size())).value();
  }
  return printable_json(value.dump(2, ' ', false, replace)) + "\n";
}

bool is_structured(const std::string& output) {
  return output == "json" || output == "yaml" || output.starts_with(kJsonPath);
}

Status check_output(const std::string& output) {
  if (!output.starts_with(kJsonPath)) return {};
  const auto read = json_path(nlohmann::json(), output.substr(kJsonPath.size()));
  if (!read) return unexpected(read.error());
  return {};
}

std::string names_of(const nlohmann::json& list, const std::string& type) {
  std::string names;
  for (const nlohmann::json& one : list)
    names += type + "/" + printable(one.value("name", "")) + "\n";
  return names;
}

}  // namespace compilecache::cli
