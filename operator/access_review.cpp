#include "operator/access_review.hpp"

#include <nlohmann/json.hpp>

namespace compilecache::controller {
namespace {

using nlohmann::json;

Result<json> review_of(const json& answer, const char* kind, const json& attributes) {
  const json status = answer.value("status", json::object());
  if (!status.value("authenticated", false)) {
    const std::string why = status.value("error", "");
    return fail(ErrorCode::kUnauthorized,
                "the API server does not accept the token" + (why.empty() ? "" : ": " + why));
  }
  const json user = status.value("user", json::object());
  json spec = {{"user", user.value("username", "")}, {kind, attributes}};
  if (spec["user"] == "") return fail(ErrorCode::kUnauthorized, "the token names no user");
  for (const char* name : {"uid", "groups", "extra"}) {
    if (user.contains(name)) spec[name] = user.at(name);
  }
  return json{{"apiVersion", "authorization.k8s.io/v1"},
              {"kind", "SubjectAccessReview"},
              {"metadata", json::object()},
              {"spec", spec}};
}

}  // namespace

json identity_review(std::string_view token) {
  return {{"apiVersion", "authentication.k8s.io/v1"},
          {"kind", "TokenReview"},
          {"metadata", json::object()},
          {"spec", {{"token", std::string(token)}}}};
}

Result<json> access_review(const json& identity_answer, const char* kind, const json& attributes) {
  try {
    return review_of(identity_answer, kind, attributes);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInternal,
                std::string("reading the API server's TokenReview: ") + e.what());
  }
}

Result<bool> parse_access_review(const json& answer) {
  try {
    return answer.value("status", json::object()).value("allowed", false);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInternal,
                std::string("reading the API server's SubjectAccessReview: ") + e.what());
  }
}

}  // namespace compilecache::controller
