#include "operator/cluster/own_registry.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;

int port_of(const json& service) {
  const json ports = service.value("spec", json::object()).value("ports", json::array());
  return ports.empty() ? api::kRegistryPort : ports.front().value("port", api::kRegistryPort);
}

}  // namespace

Result<api::OwnRegistry> find_own_registry(const kube::Client& client, const std::string& ns) {
  const auto service = client.get(kube::resources::kServices, ns, api::kRegistryService);
  if (!service) {
    const ErrorCode code = service.error().code;
    if (code == ErrorCode::kNotFound || code == ErrorCode::kForbidden) return api::OwnRegistry{};
    return unexpected(service.error().with("looking for the installation's own registry"));
  }
  const std::string address = kube::string_at(*service, {"spec", "clusterIP"});
  if (address.empty() || address == "None") {
    return fail(ErrorCode::kInvalid, std::string("the Service ") + api::kRegistryService + " in " +
                                         ns + " has no ClusterIP; give it one");
  }
  const bool ipv6 = address.find(':') != std::string::npos;
  const std::string port = ":" + std::to_string(port_of(*service));
  return api::OwnRegistry{std::string(api::kRegistryService) + "." + ns + ".svc" + port,
                          (ipv6 ? "[" + address + "]" : address) + port};
}

}  // namespace compilecache::controller
