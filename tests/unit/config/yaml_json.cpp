#include "tests/unit/config/yaml_json.hpp"
#include "tests/support/paths.hpp"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>

namespace compilecache::testing {
namespace {

using nlohmann::json;

json scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text == "true" || text == "false") return text == "true";
  const json parsed = json::parse(text, nullptr, false);
  return parsed.is_number() ? parsed : json(text);
}

json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    json object = json::object();
    for (const auto& entry : node) object[entry.first.Scalar()] = to_json(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    json array = json::array();
    for (const auto& item : node) array.push_back(to_json(item));
    return array;
  }
  return node.IsNull() ? json() : scalar(node);
}

}  // namespace

std::string read_source_file(const std::string& path) {
  std::ifstream in(testing::in_tree(path), std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

json read_yaml_file(const std::string& path) { return to_json(YAML::Load(read_source_file(path))); }

std::vector<json> read_yaml(const std::string& text) {
  std::vector<json> documents;
  for (const YAML::Node& node : YAML::LoadAll(text)) documents.push_back(to_json(node));
  return documents;
}

}  // namespace compilecache::testing
