#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "kube/client.hpp"

// Checks whether this cluster can run what we inject: native sidecars and match conditions need
// Kubernetes 1.30, on the API server and on every kubelet.

namespace compilecache::controller {

struct KubernetesVersion {
  int major = 0, minor = 0;
  auto operator<=>(const KubernetesVersion&) const = default;
};
inline constexpr KubernetesVersion kOldestVersion{1, 30};

std::string to_string(const KubernetesVersion& version);
// "v1.35.4", "v1.30.2-eks-1234", "1.33+"
std::optional<KubernetesVersion> parse_version(std::string_view text);

struct NodeVersion {
  std::string node;
  std::string kubelet;  // as the node says it
};
// The nodes whose kubelet is older than kOldestVersion; one that cannot be read is taken for new
// enough.
std::vector<NodeVersion> too_old(const std::vector<NodeVersion>& nodes);

// Fails with kInvalid and a message for people when the API server is too old.
Status check_api_server(const kube::Client& client);
// Every node's kubelet, read page by page.
Result<std::vector<NodeVersion>> read_kubelets(const kube::Client& client);

}  // namespace compilecache::controller
