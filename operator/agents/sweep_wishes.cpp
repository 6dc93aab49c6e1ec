#include "operator/agents/sweep_wishes.hpp"

#include <utility>

#include "base/log.hpp"
#include "operator/archives/archive_trust.hpp"

namespace compilecache::controller {

SweepWishes::SweepWishes(const ClusterView& view, ArchiveRegistry& registry, Wanted wanted)
    : view_(view), registry_(registry), wanted_(std::move(wanted)) {}

void SweepWishes::want(const Caller& caller) const {
  if (wanted_) wanted_(caller.ns(), caller.cache->metadata.name);
}

void SweepWishes::want_if_it_helps(const Caller& caller, const std::string& reason) const {
  // The store's folder is not as a sweep Job leaves it.
  if (reason == "store_missing" || reason == "store_forbidden") want(caller);
}

void SweepWishes::distrust(const Caller& caller, const std::string& archive,
                           const std::string& digest) const {
  const auto named = view_.archive(caller.ns(), archive);
  if (named == nullptr || named->cache != caller.cache->metadata.name) return;
  for (const auto& each : view_.archives_of(caller.ns(), named->cache)) {
    const std::string& name = each->metadata.name;
    // Archives of a store share blobs.
    const bool holds = !digest.empty() && (is_distrusted(each->head, {digest}) ||
                                           is_distrusted(each->previous, {digest}));
    if (name != archive && !holds) continue;
    const auto marked = registry_.suspect(caller.ns(), name, digest, caller.pod->name);
    if (!marked) {
      log_warn("a suspect archive could not be marked", {{"reason", to_string(marked.error().code)},
                                                         {"archive", name},
                                                         {"error", marked.error().message}});
    }
  }
  want(caller);
}

}  // namespace compilecache::controller
