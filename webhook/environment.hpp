#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/compile_cache.hpp"
#include "podspec/pod_fragments.hpp"
#include "webhook/directories.hpp"
#include "webhook/pod_json.hpp"

// Variables of the app's containers. Pure.

namespace compilecache::webhook {

// What the frameworks need in the app's container, and what joins them to the CompileCache's Redis
// server if it names one, without any variable that it has already: the
// user's own values stand.
std::vector<podspec::Variable> app_environment(
    const Json& container, const std::vector<CacheDirectory>& directories,
    const std::vector<const frameworks::Framework*>& frameworks,
    const api::CompileCacheSpec::Redis& redis);

// Whether it is the name or address of a host and nothing else: the schema demands it, but an
// object may be older than the schema, and the kubelet replaces $(NAME) in what becomes a variable.
bool is_host(std::string_view text);

// Of mode ForceCold: what makes the frameworks start cold, by name, without any variable that the
// container has already.
std::vector<podspec::Variable> cold_environment(
    const Json& container, const std::vector<const frameworks::Framework*>& frameworks);

}  // namespace compilecache::webhook
