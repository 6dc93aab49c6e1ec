#pragma once

#include <functional>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "kube/fields.hpp"
#include "kube/http_transport.hpp"

// JSON as this folder reads it: only the fields that are wanted, and a list object by object, so
// that neither a list's text nor its tree is ever in memory as a whole.

namespace compilecache::kube {

// The string at that path, empty when there is none.
std::string string_at(const nlohmann::json& json, std::initializer_list<const char*> path);

// What is wanted of the text; a discarded value when the text is no JSON. What is not wanted is
// passed over by its brackets and quotes alone.
nlohmann::json parse_json(std::string_view text, const Fields& fields = {});

// What a list says of itself.
struct ListHead {
  std::string resource_version;
  std::string continue_token;  // empty: there are no more pages
};

// Calls `on_item` with what is wanted of every element of the list's `items`, in their order.
// Errors: the body's own; kUnavailable when it is no list.
Result<ListHead> read_list(BodyReader& body, const Fields& fields,
                           const std::function<void(nlohmann::json item)>& on_item);

}  // namespace compilecache::kube
