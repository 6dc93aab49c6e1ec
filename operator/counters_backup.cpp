#include "operator/counters_backup.hpp"

#include <nlohmann/json.hpp>

#include "operator/cluster_view.hpp"

namespace compilecache::controller {
namespace {

constexpr int kPage = 50;  // a status has up to 20 kB

}  // namespace

Status seed_counters(const kube::Client& client, StatusBoard& board) {
  kube::ListOptions options{.limit = kPage};
  do {
    const auto page = client.list(resources::kCompileCaches, options);
    if (!page) return unexpected(page.error().with("reading what was counted so far"));
    for (const auto& item : page->at("items")) {
      const auto cache = api::parse_compile_cache(item);
      if (cache) board.seed(cache->metadata.key(), cache->status);
    }
    options.continue_token = page->at("metadata").value("continue", "");
  } while (!options.continue_token.empty());
  return {};
}

}  // namespace compilecache::controller
