#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"

// Asks the API server who shows a token of its own, and what that one may do.
//
//   auto identity = client.create(kube::resources::kTokenReviews, identity_review(token));
//   auto review = access_review(*identity, "nonResourceAttributes", {{"path", "/metrics"}});
//   auto answer = client.create(kube::resources::kSubjectAccessReviews, *review);
//   Result<bool> may = parse_access_review(*answer);
//
// Pure; safe from any thread.

namespace compilecache::controller {

nlohmann::json identity_review(std::string_view token);
// The access review of that identity. kUnauthorized when there is none.
Result<nlohmann::json> access_review(const nlohmann::json& identity_answer, const char* kind,
                                     const nlohmann::json& attributes);
Result<bool> parse_access_review(const nlohmann::json& answer);

}  // namespace compilecache::controller
