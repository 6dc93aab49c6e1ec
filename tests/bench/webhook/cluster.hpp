#pragma once

#include <string>

#include "tests/support/fake_apiserver.hpp"

// As much of a cluster as a replica of the operator needs that only serves the webhook: an API
// server with CompileCaches whose storage is ready, and a Lease that somebody else holds.

namespace compilecache::bench {

// CompileCaches "cache-0", "cache-1", ... in the namespace "ml".
void fill(testing::FakeApiServer& server, int caches);

// Answers one more request for /version, which every operator makes once.
void serve_version(testing::FakeApiServer& server);

// A kubeconfig for it.
std::string kubeconfig(const testing::FakeApiServer& server);

// The AdmissionReview of a pod of 7 kB, which is annotated for the operator ("cache-100") and for
// its peer.
std::string admission_review();

}  // namespace compilecache::bench
