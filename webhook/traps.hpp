#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "webhook/selection.hpp"

// Warnings about what is known to make a cache useless, or an application fail beside one, although
// the pod is injected. Pure.
//
//   - variables from a ConfigMap or Secret (envFrom) cannot be seen, and the injected ones win
//   - vLLM moves Inductor's folder into its own, so that "torch" alone keeps nothing of it
//   - a user without a name: PyTorch before 2.13 asks for it while it is imported and raises
//   KeyError,
//     wherever the cache lies (pytorch#140765)
//   - VLLM_* variables are part of vLLM's key, so one that differs from pod to pod never hits
//     (vllm/envs.py, compile_factors)
//
// A warning fits into the 256 bytes that an API server passes on.

namespace compilecache::webhook {

std::vector<std::string> trap_warnings(const nlohmann::json& pod, const Selection& selection,
                                       const std::vector<const frameworks::Framework*>& frameworks);

// For pods that get a Redis server's variables: what their image needs besides.
std::vector<std::string> remote_cache_warnings(
    const nlohmann::json& pod, const Selection& selection,
    const std::vector<const frameworks::Framework*>& frameworks);

}  // namespace compilecache::webhook
