#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "kube/client.hpp"
#include "operator/storage/sweep_job.hpp"

// Why a sweep Job has no pod. The Job controller tries again and again, and says why only in Events
// of the reason FailedCreate (seen on Kubernetes 1.35). A Job without such an Event is merely late.

namespace compilecache::controller {

// What the newest such Event says, cut to a bounded length; empty: there is none.
Result<std::string> read_refusal(const kube::Client& client, const SweepJob& job);

// Whether a pod with fewer privileges might be let through: Pod Security, OpenShift's constraints,
// a policy of the cluster. A quota, say, would refuse it as well.
bool is_about_privileges(std::string_view refusal);

}  // namespace compilecache::controller
