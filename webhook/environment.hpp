#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/compile_cache.hpp"
#include "podspec/pod_fragments.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"

// Variables added to the app's containers, and the app's variables that our containers get. Pure.

namespace compilecache::webhook {

// The variables that the frameworks need, and those for the CompileCache's Redis server if it names
// one. Variables that the container has already are left out: the user's own values stand. With
// `start_kit` also those of the frameworks' start kits.
std::vector<podspec::Variable> app_environment(
    const Json& container, const std::vector<CacheDirectory>& directories,
    const std::vector<const frameworks::Framework*>& frameworks,
    const api::CompileCacheSpec::Redis& redis, bool start_kit);

// The start kits' variables that the frameworks would add to any of the containers, in sentences,
// each variable once: "VLLM_ENABLE_STARTUP_PLAN=1, since vLLM 0.26: ...".
std::vector<std::string> start_kit_offers(
    const Json& pod, const std::vector<size_t>& containers,
    const std::vector<CacheDirectory>& directories,
    const std::vector<const frameworks::Framework*>& frameworks);

// The variables that lead the container through a proxy, as JSON, for our containers in its pod:
// what it needs to reach the outside they need too. Values that only the container itself can
// resolve are left out: $(NAME) and its own resources.
std::vector<std::string> proxy_environment(const Json& container);

// Whether the text is the name or address of a host and nothing else. The schema demands it, but an
// object may be older than the schema, and the kubelet replaces $(NAME) in variables.
bool is_host(std::string_view text);

// The variables of mode ForceCold, which make the frameworks start cold, sorted by name. Variables
// that the container has already are left out.
std::vector<podspec::Variable> cold_environment(
    const Json& container, const std::vector<const frameworks::Framework*>& frameworks);

}  // namespace compilecache::webhook
