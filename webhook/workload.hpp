#pragma once

#include <string>

#include "webhook/pod_json.hpp"

// Finds the object that a user wrote to get this pod: the part Workload of the key. The webhook
// asks nobody, so it reads the pod alone: its controller, whose name it strips of what controllers
// append, and the labels with which some controllers name their own owner.
//
//   workload_of(pod) == "Deployment/web"
//
// Pure; safe from any thread.

namespace compilecache::webhook {

// The workload by the pod's controller:
//
//   controller   what the user wrote  known by
//   ReplicaSet   Deployment           its name ends in the label pod-template-hash
//   ReplicaSet   Rollout (Argo)       its name ends in the label rollouts-pod-template-hash
//   Job          CronJob              its name ends in the minute it was made
//   Job          JobSet               jobset.sigs.k8s.io/jobset-name; a TrainJob's JobSet
//                                     has the TrainJob's name
//   StatefulSet  LeaderWorkerSet      leaderworkerset.sigs.k8s.io/name
//   RayCluster   RayService, RayJob   ray.io/originated-from-cr-name, else its name ends in
//                                     five random characters, which are taken off
//
// Any other controller is taken for the workload itself. A pod without one is of the workload that
// its annotation compilecache.dev/workload names, which `kubectl compilecache prewarm` writes; else
// "".
std::string workload_of(const Json& pod);

// Whether the pod is one of a group whose pods run only together, by the labels that it has when it
// is created (operator/cluster/pod_group.hpp has those of a pod that runs).
bool is_of_group(const Json& pod);

}  // namespace compilecache::webhook
