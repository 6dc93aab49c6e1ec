#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// YAML files of this tree as JSON, for tests.

namespace compilecache::testing {

// The file, relative to the repository's root; empty when there is none.
std::string read_source_file(const std::string& path);

// The one document in that file, with the types that YAML 1.2's core schema gives plain scalars.
nlohmann::json read_yaml_file(const std::string& path);

// All documents of a text.
std::vector<nlohmann::json> read_yaml(const std::string& text);

}  // namespace compilecache::testing
