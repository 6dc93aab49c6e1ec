#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/status/cache_overview.hpp"
#include "kube/client.hpp"

// How CompileCaches do, read from a cluster: what `status` and `report` tell.
//
//   const auto overviews = read_overviews(cluster.client, "ml", "");
//   if (!overviews) return unexpected(overviews.error());
//
// Blocks.

namespace compilecache::cli {

// One CompileCache, or (`name` empty) all of a namespace, or (`ns` empty, too) of the cluster, that
// the label selector, as the API server has it, selects. One
// that cannot be understood is marked as such, and archives that cannot be listed too (`unread`).
Result<std::vector<CacheOverview>> read_overviews(const kube::Client& client, const std::string& ns,
                                                  const std::string& name,
                                                  const std::string& selector = "");

// That there was none, as a line; `ns` empty: in the whole cluster.
std::string none_text(const std::string& ns);

}  // namespace compilecache::cli
