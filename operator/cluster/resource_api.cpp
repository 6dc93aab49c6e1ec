#include "operator/cluster/resource_api.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "kube/json.hpp"

namespace compilecache::controller {

using nlohmann::json;

Result<std::optional<std::string>> served_resource_api(const kube::Client& client) {
  const auto answer = client.raw("GET", "/apis/resource.k8s.io");
  if (!answer && answer.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!answer) {
    return unexpected(answer.error().with("asking the API server for versions of resource.k8s.io"));
  }
  const json group = json::parse(*answer, nullptr, false);
  std::vector<std::string> served;
  if (group.is_object() && group.contains("versions") && group["versions"].is_array()) {
    for (const json& one : group["versions"]) served.push_back(kube::string_at(one, {"version"}));
  }
  for (const char* known : {"v1", "v1beta2", "v1beta1"}) {
    if (std::find(served.begin(), served.end(), known) != served.end()) return known;
  }
  return std::nullopt;
}

}  // namespace compilecache::controller
