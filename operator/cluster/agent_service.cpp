#include "operator/cluster/agent_service.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "kube/json.hpp"

namespace compilecache::controller {

Result<AgentService> find_agent_service(const kube::Client& client, const std::string& ns) {
  const std::string name = std::string("the Service ") + api::kAgentService + " in " + ns;
  const auto service = client.get(kube::resources::kServices, ns, api::kAgentService);
  if (!service) {
    if (service.error().code != ErrorCode::kNotFound)
      return unexpected(service.error().with("reading the address of " + name));
    return AgentService{{}, name + " does not exist; apply the operator's manifests again"};
  }
  const std::string address = kube::string_at(*service, {"spec", "clusterIP"});
  if (address.empty() || address == "None") {
    return AgentService{
        {}, name + " has no ClusterIP; give it one, or set agent.address in the settings"};
  }
  return AgentService{address, {}};
}

Result<std::string> find_load_address(const kube::Client& client, const std::string& ns) {
  const auto service = client.get(kube::resources::kServices, ns, api::kLoadService);
  if (!service) {
    const ErrorCode code = service.error().code;
    if (code == ErrorCode::kNotFound || code == ErrorCode::kForbidden) return "";
    return unexpected(service.error().with("reading the address of the Service " +
                                           std::string(api::kLoadService) + " in " + ns));
  }
  const std::string address = kube::string_at(*service, {"spec", "clusterIP"});
  return address == "None" ? "" : address;
}

}  // namespace compilecache::controller
