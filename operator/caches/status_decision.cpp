#include "operator/caches/status_decision.hpp"

#include <set>

#include "api/names.hpp"
#include "api/store_ref.hpp"
#include "base/time_format.hpp"
#include "operator/caches/conditions.hpp"
#include "operator/cluster/earliest_requeue.hpp"

namespace compilecache::controller {
namespace {

void count_archives(const StatusInput& seen, api::CompileCacheStatus& status) {
  status.archives = status.total_bytes = 0;
  std::set<std::string> products;
  for (const auto& archive : seen.archives) {
    if (!archive->head.exists()) continue;
    ++status.archives;
    status.total_bytes += archive->head.compressed_bytes;
    const auto product = archive->key.find(api::kGpuProductPart);
    if (product != archive->key.end()) products.insert(product->second);
  }
  status.gpu_products = static_cast<int64_t>(products.size());
}

// Pods are not admitted on account of the user that our container runs as.
bool user_is_refused(const api::CompileCacheStatus& status) {
  const auto* paused = api::find_condition(status.conditions, api::kInjectionPausedCondition);
  return paused != nullptr && paused->status == "True" &&
         paused->reason == to_string(Trouble::kRefused) && is_about_a_user(paused->message);
}

}  // namespace

StatusDecision decide_status(const StatusInput& seen, const Settings::Breaker& rules) {
  const int64_t generation = seen.cache.metadata.generation;
  const std::string now = format_time(seen.now);
  StatusDecision decided{.status = seen.counted};
  api::CompileCacheStatus& status = decided.status;
  status.observed_generation = generation;
  status.store = api::store_in_words(seen.cache);
  count_archives(seen, status);
  status.active_pods = static_cast<int64_t>(seen.active_pods);

  decided.breaker = judge_breaker(seen.breaker.before, seen.breaker.input, rules, seen.now);
  write_breaker(decided.breaker.state, generation, now, status);
  status.stuck_pods = decided.breaker.stuck;
  decided.refuse_owners = user_is_refused(status);
  if (decided.refuse_owners) {
    for (api::FileOwner& owner : status.file_owners) owner.refused = true;
  }

  update_copied(status.conditions, seen.cache, {status.last_copy, seen.copy_trouble}, now);
  update_registry_trouble(status.conditions, seen.own_registry, generation, now);
  update_savers(status.conditions, seen.cache, seen.archives, now);
  update_unheard(status.conditions, seen.silence, generation, now);
  update_conditions(
      status.conditions,
      {.generation = generation,
       .invalid = unknown_frameworks(seen.cache.spec.frameworks, seen.known_frameworks),
       .invalid_reason = "UnknownFramework",
       .storage = seen.storage,
       .unreachable = seen.unreachable},
      now);
  decided.again = earliest_requeue(seen.breaker.again, decided.breaker.again);
  decided.again = earliest_requeue(decided.again, seen.silence.again);
  return decided;
}

}  // namespace compilecache::controller
