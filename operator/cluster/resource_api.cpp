#include "operator/cluster/resource_api.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/log.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {

using nlohmann::json;

namespace {

// The caller has other things to do, and asks again.
constexpr std::chrono::seconds kAnswerPatience{5};

}  // namespace

Result<std::optional<std::string>> served_resource_api(const kube::Client& client) {
  const auto answer = client.raw("GET", "/apis/resource.k8s.io");
  if (!answer && answer.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!answer) {
    return unexpected(answer.error().with("asking the API server for versions of resource.k8s.io"));
  }
  const json group = json::parse(*answer, nullptr, false);
  const auto versions = group.is_object() ? group.find("versions") : group.end();
  if (versions == group.end() || !versions->is_array())
    return fail(ErrorCode::kUnavailable,
                "asking the API server for versions of resource.k8s.io: what it sent is no list");
  std::vector<std::string> served;
  for (const json& one : *versions) served.push_back(kube::string_at(one, {"version"}));
  for (const char* known : {"v1", "v1beta2", "v1beta1"}) {
    if (std::find(served.begin(), served.end(), known) != served.end()) return known;
  }
  return std::nullopt;
}

ClaimsWatch::ClaimsWatch(const kube::Client& client)
    : client_(client.with_timeout(kAnswerPatience, 1)) {}

bool ClaimsWatch::look() {
  if (served_) return false;
  const auto served = served_resource_api(client_);
  if (served) {
    served_ = served->has_value();
    if (doubted_) {
      log_info("the API server has answered whether pods with resourceClaims can have a key",
               {{"served", *served_ ? "true" : "false"}});
    }
    return true;
  }
  if (!doubted_) {
    log_warn("pods with resourceClaims are left alone until the API server answers",
             {{"error", served.error().message}});
  }
  doubted_ = true;
  return false;
}

}  // namespace compilecache::controller
