#include "operator/caches/counters_backup.hpp"

#include <nlohmann/json.hpp>

#include "operator/cluster/cluster_view.hpp"

namespace compilecache::controller {
namespace {

constexpr int kPage = 500;  // as client-go

}  // namespace

Status seed_counters(const kube::Client& client, CacheStats& stats) {
  // Seeding the same again does nothing, so a page may come twice.
  const kube::Client::PageHandler handler{[] {},
                                          [&](const nlohmann::json& item) {
                                            const auto cache = api::parse_compile_cache(item);
                                            if (cache)
                                              stats.seed(cache->metadata.key(), cache->status);
                                          }};
  kube::ListOptions options{.limit = kPage};
  do {
    const auto page = client.list(resources::kCompileCaches, options, kube::Fields(), handler);
    if (!page) return unexpected(page.error().with("reading what was counted so far"));
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  return {};
}

}  // namespace compilecache::controller
