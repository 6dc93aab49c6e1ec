#pragma once

#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "kube/fields.hpp"
#include "kube/http_transport.hpp"

// Reads JSON keeping only the wanted fields, and lists object by object, so that neither a list's
// text nor its tree is ever in memory as a whole.

namespace compilecache::kube {

// The string at that path, empty when there is none.
std::string string_at(const nlohmann::json& json, std::initializer_list<const char*> path);

// Builds the wanted part of the text's tree; a discarded value when the text is no JSON. Unwanted
// parts are skipped by their brackets and quotes alone.
nlohmann::json parse_json(std::string_view text, const Fields& fields = {});

// The metadata of a list.
struct ListHead {
  std::string resource_version;
  std::string continue_token;  // empty: there are no more pages
};

// Calls `on_item` with the wanted part of every element of the list's `items`, in their order.
// Errors: the body's own; kUnavailable when it is no list.
Result<ListHead> read_list(BodyReader& body, const Fields& fields,
                           const std::function<void(nlohmann::json item)>& on_item);

}  // namespace compilecache::kube
