#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Whether a pod's containers can have left files of a user, by the API server's object of the pod.
// Its own saver's report may be forged, and the savers of later pods get that user.
//
//   if (can_own_files(pod, {"app"}, 0)) ...
//
// Pure; safe from any thread.

namespace compilecache::controller {

// `containers`: those that use the cache. Where the kubelet says as whom one of them runs
// (Kubernetes 1.33 or newer with containerd 2), that counts; elsewhere what the pod demands. A
// container that runs as root may become any user.
bool can_own_files(const nlohmann::json& pod, const std::vector<std::string>& containers,
                   int64_t user);

}  // namespace compilecache::controller
