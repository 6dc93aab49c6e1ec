#pragma once

#include <string>

#include "webhook/pod_json.hpp"

// Which object a user wrote to get this pod: the part Workload of the key. The webhook asks nobody,
// so it goes by what the pod itself tells: its controller, whose name without what controllers
// append, and the labels by which some of them name their own owner.
//
//   workload_of(pod) == "Deployment/web"
//
// Pure; safe from any thread.

namespace compilecache::webhook {

// | controller          | the user wrote     | known by | | ReplicaSet          | Deployment | its
// name ends in the label pod-template-hash          | | ReplicaSet          | Rollout (Argo)     |
// ... rollouts-pod-template-hash                        | | Job                 | CronJob | its
// name ends in the minute it was made               | | Job                 | JobSet             |
// jobset.sigs.k8s.io/jobset-name; a TrainJob's JobSet   | |                     | | has its name |
// | StatefulSet         | LeaderWorkerSet    | leaderworkerset.sigs.k8s.io/name | | RayCluster |
// RayService, RayJob | ray.io/originated-from-cr-name, else its name ends in | | | | five random
// characters, which are taken off           |
//
// Any other controller is taken for the user's. "" for a bare pod.
std::string workload_of(const Json& pod);

}  // namespace compilecache::webhook
