#pragma once

#include <string>
#include <string_view>

// A collection of the Kubernetes API.
//
//   client.get(resources::kPods, "ml", "web-1");
//   const Resource widgets{"example.com", "v1", "widgets"};     // of another API group

namespace compilecache::kube {

struct Resource {
  std::string group;  // empty: the core group
  std::string version;
  std::string plural;
  bool namespaced = true;
  std::string kind = {};  // of its objects; empty: not checked

  // "v1", "apps/v1"
  [[nodiscard]] std::string api_version() const;
  // "/apis/apps/v1/namespaces/ml/deployments/web/status". An empty namespace of a namespaced
  // resource means all of them; empty name and subresource are left out.
  [[nodiscard]] std::string path(std::string_view ns, std::string_view name = {},
                                 std::string_view subresource = {}) const;
};

namespace resources {
inline const Resource kPods{"", "v1", "pods", true, "Pod"};
inline const Resource kNodes{"", "v1", "nodes", false, "Node"};
inline const Resource kNamespaces{"", "v1", "namespaces", false, "Namespace"};
inline const Resource kSecrets{"", "v1", "secrets", true, "Secret"};
inline const Resource kConfigMaps{"", "v1", "configmaps", true, "ConfigMap"};
inline const Resource kServices{"", "v1", "services", true, "Service"};
inline const Resource kEvents{"", "v1", "events", true, "Event"};
inline const Resource kLimitRanges{"", "v1", "limitranges", true, "LimitRange"};
inline const Resource kResourceQuotas{"", "v1", "resourcequotas", true, "ResourceQuota"};
inline const Resource kPersistentVolumes{"", "v1", "persistentvolumes", false, "PersistentVolume"};
inline const Resource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims", true,
                                              "PersistentVolumeClaim"};
inline const Resource kDeployments{"apps", "v1", "deployments", true, "Deployment"};
inline const Resource kReplicaSets{"apps", "v1", "replicasets", true, "ReplicaSet"};
inline const Resource kJobs{"batch", "v1", "jobs", true, "Job"};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", true, "Lease"};
inline const Resource kEndpointSlices{"discovery.k8s.io", "v1", "endpointslices", true,
                                      "EndpointSlice"};
inline const Resource kTokenReviews{"authentication.k8s.io", "v1", "tokenreviews", false,
                                    "TokenReview"};
inline const Resource kSubjectAccessReviews{"authorization.k8s.io", "v1", "subjectaccessreviews",
                                            false, "SubjectAccessReview"};
inline const Resource kMutatingWebhookConfigurations{"admissionregistration.k8s.io", "v1",
                                                     "mutatingwebhookconfigurations", false,
                                                     "MutatingWebhookConfiguration"};
}  // namespace resources

// The key of a store and of a work queue: "namespace/name", or "name" without a namespace.
std::string object_key(std::string_view ns, std::string_view name);

struct NamespacedName {
  std::string ns;
  std::string name;
};
NamespacedName split_key(std::string_view key);

}  // namespace compilecache::kube
