#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/error.hpp"

namespace compilecache::cli {

// Output for scripts, as -o asks for it: "json" or "yaml", with a newline at its end, or
// "jsonpath=TEMPLATE" (json_path.hpp), which check_output() has taken. Bytes that are not UTF-8 are
// replaced. Pure.
std::string structured(const nlohmann::json& value, const std::string& output);

// Whether the output is one of those; a text for people otherwise ("", "wide", "name").
bool is_structured(const std::string& output);

// kInvalid: the template of "jsonpath=" cannot be read.
Status check_output(const std::string& output);

// For -o name: a line "TYPE/NAME" for each of a list of {"name": …}, which kubectl takes.
std::string names_of(const nlohmann::json& list, const std::string& type);

}  // namespace compilecache::cli
