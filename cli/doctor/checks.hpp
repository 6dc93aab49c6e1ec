#pragma once

#include "cli/doctor/cluster_facts.hpp"
#include "cli/doctor/findings.hpp"

// The checks of `kubectl compilecache doctor`, each of one matter. Pure; safe from any thread.
//
//   for (const Finding& finding : check_nodes(facts)) ...
//
// Each returns one finding at least, or none where its matter does not arise.

namespace compilecache::cli {

// The API server's release, the API that it serves, the operator's release and replicas.
Findings check_versions(const ClusterFacts& facts);
// Its configuration, failurePolicy and endpoints, and whether it leaves out the namespace.
Findings check_webhook(const ClusterFacts& facts);
// When the certificates end: of the webhook's caBundle, and of what the operator serves.
Findings check_certificates(const ClusterFacts& facts);
// Whether an annotated pod was injected in a dry run.
Findings check_injection(const ClusterFacts& facts);
// GPU nodes without a label for their product, and kubelets that are too old.
Findings check_nodes(const ClusterFacts& facts);
// The default StorageClass, and the claims of the namespace's CompileCaches.
Findings check_storage(const ClusterFacts& facts);
// NetworkPolicies of the namespace that keep pods from the operator.
Findings check_network(const ClusterFacts& facts);
// LimitRanges and ResourceQuotas that would refuse the injected containers.
Findings check_quotas(const ClusterFacts& facts);
// The registry installed with the operator: whether it runs, and its troubles as CompileCaches
// have them: room, collection, tokens.
Findings check_registry(const ClusterFacts& facts);
// CompileCaches of the namespace that are not Ready, or have other troubles.
Findings check_caches(const ClusterFacts& facts);
// Whether the user may install (preflight).
Findings check_rights(const ClusterFacts& facts);

// All of them that are of use: without an installation those of the cluster alone.
Findings check_all(const ClusterFacts& facts);

}  // namespace compilecache::cli
