#include "api/compile_cache_archive.hpp"

#include <algorithm>

#include "api/json_fields.hpp"
#include "api/names.hpp"
#include "api/summary.hpp"
#include "base/quantity.hpp"
#include "base/strings.hpp"

namespace compilecache::api {
namespace {

using nlohmann::json;

ArchiveHead parse_head(const json& object) {
  ArchiveHead head;
  head.manifest_digest = field<std::string>(object, "manifestDigest", "");
  head.generation = field<int64_t>(object, "generation", 0);
  head.compressed_bytes = field<int64_t>(object, "compressedBytes", 0);
  head.plain_bytes = field<int64_t>(object, "plainBytes", 0);
  head.files = field<int64_t>(object, "files", 0);
  head.layers = field<int64_t>(object, "layers", 0);
  head.compile_seconds = field<double>(object, "compileSeconds", 0);
  head.left_out = field<int64_t>(object, "leftOut", 0);
  head.saved_at = field<std::string>(object, "savedAt", "");
  head.saved_by = field<std::string>(object, "savedBy", "");
  head.image_id = field<std::string>(object, "imageID", "");
  head.blobs = field<std::vector<std::string>>(object, "blobs", {});
  head.service_account = field<std::string>(object, "serviceAccount", "");
  head.workload = field<std::string>(object, "workload", "");
  head.earlier_accounts = field<std::vector<std::string>>(object, "earlierAccounts", {});
  return head;
}

json head_json(const ArchiveHead& head) {
  json object{{"manifestDigest", head.manifest_digest},
              {"generation", head.generation},
              {"compressedBytes", head.compressed_bytes},
              {"plainBytes", head.plain_bytes},
              {"files", head.files},
              {"layers", head.layers},
              {"compileSeconds", head.compile_seconds},
              {"blobs", head.blobs}};
  set_if(object, "leftOut", head.left_out);
  set_if(object, "savedAt", head.saved_at);
  set_if(object, "savedBy", head.saved_by);
  set_if(object, "imageID", head.image_id);
  set_if(object, "serviceAccount", head.service_account);
  set_if(object, "workload", head.workload);
  if (!head.earlier_accounts.empty()) object["earlierAccounts"] = head.earlier_accounts;
  return object;
}

// Records where the blobs are, and not how to get there: that may change.
json registry_json(const RegistryRef& registry) {
  json noted{{"repository", registry.repository}};
  if (!registry.own) noted["host"] = registry.host;
  return noted;
}

RegistryRef parse_registry(const json& noted, const std::string& ns, const std::string& cache) {
  RegistryRef registry;
  registry.host = field<std::string>(noted, "host", "");
  registry.own = registry.host.empty();
  registry.repository = field<std::string>(noted, "repository", "");
  const std::string below = "/" + ns + "/" + cache;
  if (registry.repository.ends_with(below)) {
    registry.parent = registry.repository.substr(0, registry.repository.size() - below.size());
  }
  return registry;
}

std::optional<StoreRef> parse_store(const json& spec, const std::string& ns,
                                    const std::string& cache) {
  const json& registry = child(spec, "registry");
  if (registry.is_object() && !registry.empty()) return parse_registry(registry, ns, cache);
  const std::string claim = field<std::string>(spec, "claimName", "");
  if (claim.empty()) return std::nullopt;
  return StoreRef{VolumeRef{ns, claim, field<std::string>(spec, "path", "")}};
}

// 0.1 showed the digests to people alone, "sha256:..." in the messages of the conditions, and its
// schema, where it is still installed, makes the API server drop status.distrusted. The messages
// name them still, and are read where the field is absent; nowhere else.
std::vector<DistrustedBlob> distrusted_by_messages(const std::vector<Condition>& conditions) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr size_t kLength = 71;  // the prefix and 64 hexadecimal digits
  std::vector<DistrustedBlob> blobs;
  for (const char* type : {kSuspectCondition, kCorruptCondition}) {
    const Condition* condition = find_condition(conditions, type);
    if (condition == nullptr || condition->status != "True") continue;
    const auto otherwise = type == kCorruptCondition ? DistrustReason::kVerificationFailed
                                                     : DistrustReason::kLoadReportedCorruption;
    const auto reason = parse_word<DistrustReason>(condition->reason).value_or(otherwise);
    const std::string& text = condition->message;
    for (size_t at = text.find(kPrefix); at != std::string::npos; at = text.find(kPrefix, at + 1)) {
      blobs.push_back({text.substr(at, kLength), reason, condition->last_transition_time});
    }
  }
  return blobs;
}

std::vector<DistrustedBlob> parse_distrusted(const json& status,
                                             const std::vector<Condition>& conditions) {
  const json& list = child(status, "distrusted");
  if (!list.is_array()) return distrusted_by_messages(conditions);
  std::vector<DistrustedBlob> blobs;
  for (const json& item : list) {
    // In the words of another release it is suspect all the same.
    const auto reason = parse_word<DistrustReason>(field<std::string>(item, "reason", ""));
    blobs.push_back({field<std::string>(item, "digest", ""),
                     reason.value_or(DistrustReason::kLoadReportedCorruption),
                     field<std::string>(item, "since", "")});
  }
  return blobs;
}

json distrusted_json(const std::vector<DistrustedBlob>& blobs) {
  json list = json::array();
  for (const DistrustedBlob& blob : blobs) {
    json item{{"digest", blob.digest}, {"reason", to_string(blob.reason)}};
    set_if(item, "since", blob.since);
    list.push_back(std::move(item));
  }
  return list;
}

std::vector<RankRecord> parse_ranks(const json& status) {
  std::vector<RankRecord> records;
  const json& list = child(status, "ranks");
  if (!list.is_array()) return records;
  for (const json& item : list) {
    records.push_back(
        {field<std::string>(item, "member", ""), field<std::string>(item, "layout", ""),
         field<std::vector<std::string>>(item, "ranks", {}), field<int64_t>(item, "pods", 0),
         field<std::string>(item, "pod", ""), field<bool>(item, "moves", false)});
  }
  return records;
}

json ranks_json(const std::vector<RankRecord>& records) {
  json list = json::array();
  for (const RankRecord& record : records) {
    json item{{"member", record.member},
              {"layout", record.layout},
              {"ranks", record.ranks},
              {"pods", record.pods},
              {"pod", record.pod}};
    if (record.moves) item["moves"] = true;
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

Result<CompileCacheArchive> parse_archive(const json& object) {
  CompileCacheArchive archive;
  archive.metadata = object_meta(object);
  const json& spec = child(object, "spec");
  archive.cache = field<std::string>(spec, "cache", "");
  archive.key = field<ArchiveKey>(spec, "key", {});
  archive.store = parse_store(spec, archive.metadata.ns, archive.cache);
  for (const json& owner : child(child(object, "metadata"), "ownerReferences")) {
    if (field<std::string>(owner, "kind", "") == "CompileCache") {
      archive.cache_uid = field<std::string>(owner, "uid", "");
    }
  }
  if (archive.cache.empty()) {
    return fail(ErrorCode::kInvalid,
                "reading CompileCacheArchive " + archive.metadata.key() +
                    ": spec.cache is missing; delete the object, it is written by the operator");
  }
  const json& status = child(object, "status");
  archive.head = parse_head(child(status, "head"));
  archive.previous = parse_head(child(status, "previous"));
  const json& lock = child(status, "lock");
  archive.lock = {field<std::string>(lock, "holder", ""), field<std::string>(lock, "pod", ""),
                  field<int64_t>(lock, "fence", 0), field<std::string>(lock, "acquiredAt", "")};
  archive.last_used_time = field<std::string>(status, "lastUsedTime", "");
  const json& loads = child(status, "loads");
  archive.loads.exact = field<int64_t>(loads, "exact", 0);
  archive.loads.compatible = field<int64_t>(loads, "compatible", 0);
  archive.loads.failed = field<int64_t>(loads, "failed", 0);
  const json& effect = child(status, "effect");
  archive.effect = {field<int64_t>(effect, "full", 0), field<int64_t>(effect, "partial", 0),
                    field<int64_t>(effect, "none", 0), field<int64_t>(effect, "unused", 0),
                    field<int64_t>(effect, "unknown", 0)};
  archive.conditions = parse_conditions(status);
  archive.distrusted = parse_distrusted(status, archive.conditions);
  archive.ranks = parse_ranks(status);
  return archive;
}

bool saved_by_allowed(const ArchiveHead& head, const std::vector<std::string>& allowed) {
  if (allowed.empty()) return true;
  const auto may_save = [&](const std::string& account) {
    return std::find(allowed.begin(), allowed.end(), account) != allowed.end();
  };
  const bool known = !head.service_account.empty();
  return (!known || may_save(head.service_account)) &&
         std::all_of(head.earlier_accounts.begin(), head.earlier_accounts.end(), may_save);
}

bool is_suspect(const CompileCacheArchive& archive) {
  return is_true(archive.conditions, kSuspectCondition);
}

bool is_crashing(const CompileCacheArchive& archive) {
  const Condition* suspect = find_condition(archive.conditions, kSuspectCondition);
  return is_suspect(archive) && suspect->reason == to_string(DistrustReason::kPodsCrashed);
}

bool is_corrupt(const CompileCacheArchive& archive) {
  return is_true(archive.conditions, kCorruptCondition);
}

namespace {

json spec_json(const CompileCacheArchive& archive) {
  json spec{{"cache", archive.cache}, {"key", archive.key}};
  const VolumeRef* volume = archive.store ? archive.store->volume() : nullptr;
  if (volume != nullptr) {
    spec["claimName"] = volume->claim;
    spec["path"] = volume->path;
  }
  const RegistryRef* registry = archive.store ? archive.store->registry() : nullptr;
  if (registry != nullptr) spec["registry"] = registry_json(*registry);
  return spec;
}

}  // namespace

json new_archive_json(const CompileCacheArchive& archive) {
  const auto product = archive.key.find(kGpuProductPart);
  json labels{{kCacheLabel, archive.cache}};
  if (product != archive.key.end()) labels[kGpuProductLabel] = to_label_value(product->second);
  return {{"apiVersion", kApiVersion},
          {"kind", "CompileCacheArchive"},
          {"metadata",
           {{"name", archive.metadata.name},
            {"namespace", archive.metadata.ns},
            {"labels", labels},
            {"ownerReferences",
             {{{"apiVersion", kApiVersion},
               {"kind", "CompileCache"},
               {"name", archive.cache},
               {"uid", archive.cache_uid},
               {"controller", true},
               {"blockOwnerDeletion", false}}}}}},
          {"spec", spec_json(archive)}};
}

json status_json(const CompileCacheArchive& archive) {
  json status{{"lock", {{"fence", archive.lock.fence}}},
              {"loads",
               {{"exact", archive.loads.exact},
                {"compatible", archive.loads.compatible},
                {"failed", archive.loads.failed}}},
              {"effect",
               {{"full", archive.effect.full},
                {"partial", archive.effect.partial},
                {"none", archive.effect.none},
                {"unused", archive.effect.unused},
                {"unknown", archive.effect.unknown}}},
              {"conditions", conditions_json(archive.conditions)}};
  set_if(status["lock"], "holder", archive.lock.holder);
  set_if(status["lock"], "pod", archive.lock.pod);
  set_if(status["lock"], "acquiredAt", archive.lock.acquired_at);
  set_if(status, "lastUsedTime", archive.last_used_time);
  status["summary"] = {{"loads", summary(archive.loads)}};
  if (archive.head.exists()) {
    status["head"] = head_json(archive.head);
    status["summary"]["size"] = format_bytes(static_cast<uint64_t>(archive.head.compressed_bytes));
  }
  if (!archive.distrusted.empty()) status["distrusted"] = distrusted_json(archive.distrusted);
  if (!archive.ranks.empty()) status["ranks"] = ranks_json(archive.ranks);
  if (archive.previous.exists()) status["previous"] = head_json(archive.previous);
  return status;
}

}  // namespace compilecache::api
