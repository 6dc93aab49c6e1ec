#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace compilecache::cli {

// What is told to scripts, as -o asks for it: "json" or "yaml", with a newline at its end. What is
// not UTF-8 is replaced. Pure.
std::string structured(const nlohmann::json& value, const std::string& output);

}  // namespace compilecache::cli
