#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "kube/client.hpp"
#include "operator/storage/sweep_job.hpp"

// Finds out why a sweep Job has no pod. The Job controller tries again and again, and says why only
// in Events with the reason FailedCreate (seen on Kubernetes 1.35). A Job without such an Event is
// merely late.

namespace compilecache::controller {

// The message of the newest such Event, cut to a bounded length; empty: there is none.
Result<std::string> read_refusal(const kube::Client& client, const SweepJob& job);

// Whether a pod with fewer privileges might be admitted: after a refusal by Pod Security, by
// OpenShift's constraints or by a policy of the cluster, but not by a quota, say.
bool is_about_privileges(std::string_view refusal);

}  // namespace compilecache::controller
