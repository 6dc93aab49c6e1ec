#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// Small things about JSON that this folder needs in several places.

namespace compilecache::kube {

// The string at that path, empty when there is none.
std::string string_at(const nlohmann::json& json, std::initializer_list<const char*> path);

// Parses and leaves every object's metadata.managedFields out, which are a third of an object and
// of no use to us. A discarded value when the text is no JSON.
nlohmann::json parse_without_managed_fields(std::string_view text);

}  // namespace compilecache::kube
