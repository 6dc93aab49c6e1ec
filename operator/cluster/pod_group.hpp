#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

// The group that a pod belongs to, whose pods run only together, and its place in it: by the labels
// of the controllers that make such groups. Seen on the pods of LeaderWorkerSet 0.8 and of
// Kubernetes' own controllers; the others are read in their sources. Code that reads another label
// here has to name it in pod_fields(), too.
//
//   const std::string group = pod_group(labels).id;       // empty: none
//   const std::string place = pod_group(labels).member;   // empty: not known
//
// "leaderworkerset.sigs.k8s.io/group-key=3e23…", "leaderworkerset.sigs.k8s.io/worker-index=1".
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct PodGroup {
  std::string id, member;
};
// A StatefulSet's and a Job's pods have places, and need not be a group.
PodGroup pod_group(const nlohmann::json& labels);

}  // namespace compilecache::controller
