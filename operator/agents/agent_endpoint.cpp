#include "operator/agents/agent_endpoint.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"

namespace compilecache::controller {

using nlohmann::json;

json endpoint_slice(const std::string& ns, const std::string& address, uint16_t port) {
  const bool ipv6 = address.find(':') != std::string::npos;
  return {{"apiVersion", "discovery.k8s.io/v1"},
          {"kind", "EndpointSlice"},
          {"metadata",
           {{"name", api::kAgentService},
            {"namespace", ns},
            {"labels",
             {{"kubernetes.io/service-name", api::kAgentService},
              {"endpointslice.kubernetes.io/managed-by", "compilecache-operator"}}}}},
          {"addressType", ipv6 ? "IPv6" : "IPv4"},
          {"endpoints",
           json::array(
               {{{"addresses", {address}},
                 {"conditions", {{"ready", true}, {"serving", true}, {"terminating", false}}}}})},
          {"ports", json::array({{{"name", "https"}, {"protocol", "TCP"}, {"port", port}}})}};
}

Status write_endpoint_slice(const kube::Client& client, const std::string& ns,
                            const std::string& address, uint16_t port) {
  const kube::Resource& resource = kube::resources::kEndpointSlices;
  json wanted = endpoint_slice(ns, address, port);
  auto present = client.get(resource, ns, api::kAgentService);
  if (!present) {
    if (present.error().code != ErrorCode::kNotFound) return unexpected(present.error());
    auto created = client.create(resource, wanted);
    if (!created) return unexpected(created.error());
    return {};
  }
  if (present->value("endpoints", json()) == wanted["endpoints"] &&
      present->value("ports", json()) == wanted["ports"]) {
    return {};
  }
  wanted["metadata"]["resourceVersion"] = present->at("metadata").value("resourceVersion", "");
  auto updated = client.update(resource, wanted);
  if (!updated) return unexpected(updated.error());
  return {};
}

}  // namespace compilecache::controller
