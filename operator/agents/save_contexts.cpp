#include "operator/agents/save_contexts.hpp"

#include "operator/agents/agent_words.hpp"
#include "operator/archives/archive_trust.hpp"

namespace compilecache::controller {
namespace {

void note_savers(const api::ArchiveHead& head, SaveContext& context) {
  if (!head.exists() || head.service_account.empty()) return;
  std::set<std::string>& savers = context.savers[head.manifest_digest];
  savers.insert(head.service_account);
  savers.insert(head.earlier_accounts.begin(), head.earlier_accounts.end());
}

}  // namespace

std::string may_not_save(const Caller& caller) {
  if (caller.pod->injection->mode == api::Mode::kReadOnly) return "mode_read_only";
  SaveContext context;
  context.service_account = caller.identity.service_account;
  context.save = caller.cache->spec.save;
  return refusal(context);
}

SaveContext SaveContexts::of(const Caller& caller, const api::ArchiveKey& key) const {
  const api::CompileCache& cache = *caller.cache;
  SaveContext context;
  context.ns = caller.ns();
  context.pod = caller.pod->name;
  context.pod_uid = caller.pod->uid;
  context.service_account = caller.identity.service_account;
  context.cache = cache.metadata.name;
  context.cache_uid = cache.metadata.uid;
  context.store = caller.store;
  context.save = cache.spec.save;
  context.key = key;
  context.image_id = caller.pod->image_id();
  context.refresh = caller.pod->injection->mode == api::Mode::kRefresh;
  context.loaded_manifest = crashes_.manifest_of(caller.pod->uid);
  context.workload = cut(caller.pod->injection->key_basis.workload, kWorkloadLength);
  for (const std::string& manifest : stats_.crashing(caller.key())) {
    context.crashing.insert(manifest);
  }
  const std::string own = api::archive_name(context.cache, key);
  for (const auto& archive : view_.archives_of(context.ns, context.cache)) {
    context.crashing.merge(crashing_manifests(*archive));
    note_savers(archive->head, context);
    note_savers(archive->previous, context);
    if (archive->metadata.name != own) context.distrusted.merge(blobs_to_write_anew(*archive));
  }
  context.loaded_head = stats_.archive_of(caller.key(), caller.pod->uid) == own;
  return context;
}

}  // namespace compilecache::controller
