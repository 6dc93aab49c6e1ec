#pragma once

#include "tests/support/kubectl.hpp"
#include "tests/support/left_out.hpp"

namespace compilecache::testing {

// Whether what is about ResourceClaims has to be left out, on an API server that does not have
// them.
[[nodiscard]] inline bool no_claims() {
  return left_out_unless(kubectl({"get", "--raw", "/apis/resource.k8s.io/v1"}).exit_code == 0,
                         "this API server has no resource.k8s.io/v1, which is of 1.34 and newer");
}

}  // namespace compilecache::testing
