#include "operator/agents/load_situation.hpp"

#include <algorithm>
#include <functional>

#include "base/log.hpp"
#include "operator/agents/agent_words.hpp"
#include "operator/archives/rank_records.hpp"

namespace compilecache::controller {

using std::chrono::milliseconds;

Status check_load(const Caller& caller, const api::LoadRequest& request) {
  if (Status ok = check_application(caller, request.cache); !ok) return ok;
  if (api::is_cpu_name(request.cpu)) return {};
  return fail(ErrorCode::kInvalid,
              "asking for an archive: the field cpu names no kind of CPU; this is a bug of the "
              "loader");
}

LoadSituation load_situation(const ClusterView& view, const Settings& settings,
                             const Caller& caller, const api::LoadRequest& request) {
  const api::CompileCacheSpec& spec = caller.cache->spec;
  LoadSituation situation{.cache = caller.cache->metadata.name, .key = key_of(view, caller)};
  situation.archives = view.archives_of(caller.ns(), situation.cache);
  // Those of an earlier CompileCache of this name were deleted with it.
  std::erase_if(situation.archives, [&](const auto& archive) {
    return archive->cache_uid != caller.cache->metadata.uid;
  });
  situation.mode = caller.pod->injection->mode;
  situation.fallback_compatible = spec.load.fallback == api::LoadFallback::kCompatible;
  situation.timeout = spec.load.timeout;
  situation.wait_for_first = milliseconds(caller.pod->injection->wait_for_first_ms);
  situation.allowed_service_accounts = spec.save.allowed_service_accounts;
  situation.service_account = caller.identity.service_account;
  situation.workload = cut(caller.pod->injection->key_basis.workload, kWorkloadLength);
  situation.label_wait = settings.agent.label_wait;
  situation.waited = milliseconds(std::max<int64_t>(0, request.waited_ms));
  situation.waited_for_place =
      std::min(milliseconds(std::max<int64_t>(0, request.waited_for_place_ms)), situation.waited);
  situation.host_cpu = request.cpu;
  const api::KeyBasis& basis = caller.pod->injection->key_basis;
  situation.uses_gpu = basis.claims.has_value() || !basis.gpu_resource.empty();
  situation.spread = static_cast<double>(std::hash<std::string>{}(caller.pod->uid) % 1000) / 1000;
  return situation;
}

bool take_place(LoadTraffic& traffic, const Caller& caller, const api::LoadAnswer& decided,
                LoadSituation& situation) {
  if (!caller.store) return true;
  const FairPlaces::Tenant tenant{caller.store->id(), caller.ns()};
  const FairPlaces::Answer place = traffic.begin({.tenant = tenant,
                                                  .pod_uid = caller.pod->uid,
                                                  .bytes = decided.plain_bytes,
                                                  .budget = milliseconds(decided.budget_ms)});
  if (place.granted) return true;
  situation.too_many_loads = true;
  situation.waiting = traffic.waiting(tenant);
  if (place.entitled) situation.place_due = std::chrono::ceil<milliseconds>(place.due);
  return false;
}

std::vector<std::string> ranks_of(const Caller& caller, const LoadSituation& situation,
                                  const std::string& archive) {
  for (const auto& known : situation.archives) {
    if (known->metadata.name == archive) return own_ranks(caller.pod->group.member, known->ranks);
  }
  return {};
}

void log_decision(const Caller& caller, const LoadSituation& situation,
                  const api::LoadAnswer& answer, const char* by) {
  log_info("load decided",
           {{"reason", answer.match ? std::string(api::to_string(answer.match)) : answer.reason},
            {"decision", std::string(api::to_string(answer.decision))},
            {"by", by},
            {"namespace", caller.ns()},
            {"cache", situation.cache},
            {"pod", caller.pod->name},
            {"archive", answer.archive},
            {"gpu_product", answer.gpu_product}});
}

}  // namespace compilecache::controller
