#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"

// Which version of resource.k8s.io, with ResourceClaims and ResourceSlices, an API server has.

namespace compilecache::controller {

// The best of v1 (Kubernetes 1.34), v1beta2 (1.33) and v1beta1 (1.32); nothing where it serves none
// of them. Asks the API server.
Result<std::optional<std::string>> served_resource_api(const kube::Client& client);

// Whether pods that get their GPUs by resourceClaims can have a key: where the API server serves a
// version. Until it has answered they are left alone.
//
//   ClaimsWatch claims(client);
//   if (claims.look()) webhook.set_resource_claims(claims.served());   // again and again
//
// For one thread.
class ClaimsWatch {
 public:
  explicit ClaimsWatch(const kube::Client& client);

  // Asks the API server until it has answered once. Returns whether it did so now.
  bool look();
  [[nodiscard]] bool served() const { return served_.value_or(false); }

 private:
  const kube::Client client_;
  std::optional<bool> served_;
  bool doubted_ = false;  // it did not answer, and that was logged
};

}  // namespace compilecache::controller
