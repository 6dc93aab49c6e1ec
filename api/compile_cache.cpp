#include "api/compile_cache.hpp"

#include "api/json_fields.hpp"
#include "api/spec_fields.hpp"
#include "api/summary.hpp"
#include "base/quantity.hpp"

namespace compilecache::api {
namespace {

using nlohmann::json;

// The fault, with the path of its field, or "".
std::string read_spec(const json& from, CompileCacheSpec& spec) {
  FieldReader reader("spec");
  reader.read(from, spec);
  if (!reader.error().empty()) return reader.error();
  const bool keeps_something = spec.storage || !spec.remote_cache.redis.host.empty();
  return keeps_something ? "" : std::string("spec.storage: ") + kStorageMissing;
}

RecentPods parse_recent(const json& items) {
  std::vector<RecentPod> pods;
  for (const json& item : items) {
    RecentPod& pod = pods.emplace_back();
    for (const auto& [name, text] : kRecentPodTexts) pod.*text = field<std::string>(item, name, "");
    for (const auto& [name, number] : kRecentPodNumbers) {
      pod.*number = field<int64_t>(item, name, 0);
    }
    for (const auto& [name, list] : kRecentPodLists) {
      pod.*list = field<std::vector<std::string>>(item, name, {});
    }
    pod.key = field<ArchiveKey>(item, "key", {});
  }
  return pods;
}

json recent_json(const RecentPods& pods) {
  json items = json::array();
  for (const RecentPod& pod : pods.list()) {
    json& item = items.emplace_back(json{{"pod", pod.pod}, {"milliseconds", pod.milliseconds}});
    for (const auto& [name, text] : kRecentPodTexts) set_if(item, name, pod.*text);
    for (const auto& [name, number] : kRecentPodNumbers) set_if(item, name, pod.*number);
    for (const auto& [name, list] : kRecentPodLists) {
      if (!(pod.*list).empty()) item[name] = pod.*list;
    }
    if (!pod.key.empty()) item["key"] = pod.key;
  }
  return items;
}

// Unusable values are dropped: pods that get them would be refused.
std::vector<FileOwner> parse_file_owners(const json& items) {
  std::vector<FileOwner> owners;
  for (const json& item : items) {
    FileOwner owner{field<std::string>(item, "image", ""), field<int64_t>(item, "user", -1),
                    field<bool>(item, "refused", false), field<std::string>(item, "time", "")};
    if (is_user(owner.user) && owners.size() < kMostFileOwners) owners.push_back(std::move(owner));
  }
  return owners;
}

json file_owners_json(const std::vector<FileOwner>& owners) {
  json items = json::array();
  for (const FileOwner& owner : owners) {
    json& item = items.emplace_back(json{{"image", owner.image}, {"user", owner.user}});
    if (owner.refused) item["refused"] = true;
    set_if(item, "time", owner.time);
  }
  return items;
}

CompileCacheStatus parse_status(const json& status) {
  CompileCacheStatus parsed;
  parsed.observed_generation = field<int64_t>(status, "observedGeneration", 0);
  parsed.conditions = parse_conditions(status);
  parsed.store = field<std::string>(child(status, "summary"), "store", "");
  parsed.adopted_store = field<std::string>(status, "adoptedStore", "");
  parsed.archives = field<int64_t>(status, "archives", 0);
  parsed.gpu_products = field<int64_t>(status, "gpuProducts", 0);
  parsed.total_bytes = field<int64_t>(status, "totalBytes", 0);
  parsed.active_pods = field<int64_t>(status, "activePods", 0);
  const json& loads = child(status, "loads");
  parsed.loads = {field<int64_t>(loads, "exact", 0), field<int64_t>(loads, "compatible", 0),
                  field<int64_t>(loads, "missing", 0), field<int64_t>(loads, "failed", 0)};
  const json& effect = child(status, "effect");
  parsed.effect = {field<int64_t>(effect, "full", 0), field<int64_t>(effect, "partial", 0),
                   field<int64_t>(effect, "none", 0), field<int64_t>(effect, "unused", 0),
                   field<int64_t>(effect, "unknown", 0)};
  const json& saves = child(status, "saves");
  parsed.saves = {field<int64_t>(saves, "committed", 0), field<int64_t>(saves, "unchanged", 0),
                  field<int64_t>(saves, "refused", 0), field<int64_t>(saves, "failed", 0)};
  parsed.recent = parse_recent(child(status, "recent"));
  parsed.last_save_time = field<std::string>(status, "lastSaveTime", "");
  const json& sweep = child(status, "lastSweep");
  parsed.last_sweep = {
      field<std::string>(sweep, "time", ""), field<int64_t>(sweep, "freedBytes", 0),
      field<int64_t>(sweep, "removedArchives", 0), field<int64_t>(sweep, "removedIncomplete", 0)};
  const json& copy = child(status, "lastCopy");
  parsed.last_copy = {field<std::string>(copy, "from", ""), field<std::string>(copy, "time", ""),
                      field<int64_t>(copy, "archives", 0), field<int64_t>(copy, "leftOut", 0),
                      field<std::string>(copy, "error", "")};
  parsed.seconds_saved = field<int64_t>(status, "secondsSaved", 0);
  for (const json& item : child(status, "condemned")) {
    parsed.condemned.push_back(
        {field<std::string>(item, "digest", ""), field<std::string>(item, "since", "")});
  }
  parsed.crashing = field<std::vector<std::string>>(status, "crashing", {});
  parsed.file_owners = parse_file_owners(child(status, "fileOwners"));
  parsed.stuck_pods = field<std::vector<std::string>>(status, "stuckPods", {});
  parsed.sweep_job = field<std::string>(status, "sweepJob", "");
  const json& breaker = child(status, "breaker");
  parsed.breaker = {
      field<std::string>(breaker, "state", ""),     field<std::string>(breaker, "since", ""),
      field<int64_t>(breaker, "openings", 0),       field<int64_t>(breaker, "failedProbes", 0),
      field<std::string>(breaker, "probeTime", ""), field<std::string>(breaker, "node", ""),
      field<std::string>(breaker, "newestPod", "")};
  return parsed;
}

}  // namespace

ObjectMeta object_meta(const json& object) {
  const json& metadata = child(object, "metadata");
  ObjectMeta meta;
  meta.name = field<std::string>(metadata, "name", "");
  meta.ns = field<std::string>(metadata, "namespace", "");
  meta.uid = field<std::string>(metadata, "uid", "");
  meta.resource_version = field<std::string>(metadata, "resourceVersion", "");
  meta.generation = field<int64_t>(metadata, "generation", 0);
  meta.deleting = metadata.contains("deletionTimestamp");
  meta.creation_time = field<std::string>(metadata, "creationTimestamp", "");
  return meta;
}

Result<CompileCache> parse_compile_cache(const json& object) {
  CompileCache cache;
  cache.metadata = object_meta(object);
  if (const std::string trouble = read_spec(child(object, "spec"), cache.spec); !trouble.empty()) {
    return fail(ErrorCode::kInvalid,
                "reading CompileCache " + cache.metadata.key() + ": " + trouble);
  }
  cache.status = parse_status(child(object, "status"));
  return cache;
}

namespace {

// Only counters that have counted; a reader takes the others for zero.
json counters_json(std::initializer_list<std::pair<const char*, int64_t>> counters) {
  json object = json::object();
  for (const auto& [name, count] : counters) {
    if (count != 0) object[name] = count;
  }
  return object;
}

json summary_json(const CompileCacheStatus& status) {
  json object;
  set_if(object, "store", status.store);
  set_if(object, "hits", hit_rate(status.loads));
  set_if(object, "mainEffect", main_effect(status.effect));
  set_if(object, "saved", time_saved(status.seconds_saved));
  set_if(object, "loads", summary(status.loads));
  set_if(object, "effect", summary(status.effect));
  set_if(object, "saves", summary(status.saves));
  if (status.total_bytes > 0) {
    object["size"] = format_bytes(static_cast<uint64_t>(status.total_bytes));
  }
  return object;
}

void set_lists(json& object, const CompileCacheStatus& status) {
  json condemned = json::array();
  for (const CondemnedBlob& blob : status.condemned) {
    condemned.push_back({{"digest", blob.digest}, {"since", blob.since}});
  }
  object.update({{"recent", recent_json(status.recent)},
                 {"condemned", std::move(condemned)},
                 {"crashing", status.crashing},
                 {"fileOwners", file_owners_json(status.file_owners)},
                 {"stuckPods", status.stuck_pods}});
}

}  // namespace

json to_json(const CompileCacheStatus& status) {
  json object = counters_json({{"gpuProducts", status.gpu_products},
                               {"totalBytes", status.total_bytes},
                               {"activePods", status.active_pods},
                               {"secondsSaved", status.seconds_saved}});
  object["loads"] = counters_json({{"exact", status.loads.exact},
                                   {"compatible", status.loads.compatible},
                                   {"missing", status.loads.missing},
                                   {"failed", status.loads.failed}});
  object["effect"] = counters_json({{"full", status.effect.full},
                                    {"partial", status.effect.partial},
                                    {"none", status.effect.none},
                                    {"unused", status.effect.unused},
                                    {"unknown", status.effect.unknown}});
  object["saves"] = counters_json({{"committed", status.saves.committed},
                                   {"unchanged", status.saves.unchanged},
                                   {"refused", status.saves.refused},
                                   {"failed", status.saves.failed}});
  object["summary"] = summary_json(status);
  set_lists(object, status);
  for (auto member = object.begin(); member != object.end();) {
    member = member->empty() ? object.erase(member) : std::next(member);
  }
  // Also when they are zero: a column and a rule of the schema read the number of archives.
  object["archives"] = status.archives;
  object["observedGeneration"] = status.observed_generation;
  object["conditions"] = conditions_json(status.conditions);
  set_if(object, "adoptedStore", status.adopted_store);
  set_if(object, "lastSaveTime", status.last_save_time);
  set_if(object, "sweepJob", status.sweep_job);
  if (!status.last_sweep.time.empty()) {
    object["lastSweep"] = {{"time", status.last_sweep.time},
                           {"freedBytes", status.last_sweep.freed_bytes},
                           {"removedArchives", status.last_sweep.removed_archives},
                           {"removedIncomplete", status.last_sweep.removed_incomplete}};
  }
  if (!status.last_copy.time.empty()) {
    json& copy = object["lastCopy"];
    copy = {{"from", status.last_copy.from},
            {"time", status.last_copy.time},
            {"archives", status.last_copy.archives},
            {"leftOut", status.last_copy.left_out}};
    set_if(copy, "error", status.last_copy.error);
  }
  if (!status.breaker.state.empty()) {
    json& breaker = object["breaker"];
    breaker = {{"state", status.breaker.state},
               {"openings", status.breaker.openings},
               {"failedProbes", status.breaker.failed_probes}};
    set_if(breaker, "since", status.breaker.since);
    set_if(breaker, "probeTime", status.breaker.probe_time);
    set_if(breaker, "node", status.breaker.node);
    set_if(breaker, "newestPod", status.breaker.newest_pod);
  }
  return object;
}

}  // namespace compilecache::api
