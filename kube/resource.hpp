#pragma once

#include <string>
#include <string_view>

// Which collection of the API is meant.
//
//   client.get(resources::kPods, "ml", "web-1");
//   inline const Resource kCompileCaches{"compilecache.dev", "v1alpha1", "compilecaches", true};

namespace compilecache::kube {

struct Resource {
  std::string group;  // empty: the core group
  std::string version;
  std::string plural;
  bool namespaced = true;

  // "v1", "apps/v1"
  [[nodiscard]] std::string api_version() const;
  // "/apis/apps/v1/namespaces/ml/deployments/web/status". An empty namespace of a namespaced
  // resource means all of them; empty name and subresource are left out.
  [[nodiscard]] std::string path(std::string_view ns, std::string_view name = {},
                                 std::string_view subresource = {}) const;
};

namespace resources {
inline const Resource kPods{"", "v1", "pods", true};
inline const Resource kNodes{"", "v1", "nodes", false};
inline const Resource kNamespaces{"", "v1", "namespaces", false};
inline const Resource kSecrets{"", "v1", "secrets", true};
inline const Resource kConfigMaps{"", "v1", "configmaps", true};
inline const Resource kServices{"", "v1", "services", true};
inline const Resource kEvents{"", "v1", "events", true};
inline const Resource kLimitRanges{"", "v1", "limitranges", true};
inline const Resource kResourceQuotas{"", "v1", "resourcequotas", true};
inline const Resource kPersistentVolumes{"", "v1", "persistentvolumes", false};
inline const Resource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims", true};
inline const Resource kDeployments{"apps", "v1", "deployments", true};
inline const Resource kReplicaSets{"apps", "v1", "replicasets", true};
inline const Resource kJobs{"batch", "v1", "jobs", true};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", true};
inline const Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices", true};
inline const Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", false};
inline const Resource kMutatingWebhookConfigurations{"admissionregistration.k8s.io", "v1",
                                                     "mutatingwebhookconfigurations", false};
}  // namespace resources

// The key of a store and of a work queue: "namespace/name", or "name" without a namespace.
std::string object_key(std::string_view ns, std::string_view name);

struct NamespacedName {
  std::string ns;
  std::string name;
};
NamespacedName split_key(std::string_view key);

}  // namespace compilecache::kube
