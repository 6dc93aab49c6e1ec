#include "api/compile_cache.hpp"

#include <bit>

#include "api/json_fields.hpp"
#include "api/summary.hpp"
#include "base/duration.hpp"
#include "base/quantity.hpp"

namespace compilecache::api {
namespace {

using nlohmann::json;

// Collects the first error while reading; later reads do nothing.
class SpecReader {
 public:
  explicit SpecReader(const json& spec) : spec_(spec) {}

  template <typename T>
  void read(const char* section, const char* name, T& into) {
    const json* value = find(section, name);
    if (value == nullptr) return;
    try {
      into = value->get<T>();
    } catch (const json::exception&) {
      refuse(section, name, "has the wrong type: " + value->dump());
    }
  }

  void read_number(const char* section, const char* name, std::optional<int64_t>& into) {
    const json* value = find(section, name);
    if (value == nullptr) return;
    if (value->is_number_integer()) {
      into = value->get<int64_t>();
    } else {
      refuse(section, name, "must be a whole number, not " + value->dump());
    }
  }

  template <Worded Enum>
  void read_word(const char* section, const char* name, Enum& into) {
    std::string word;
    if (find(section, name) == nullptr) return;
    read(section, name, word);
    if (!error_.empty()) return;
    if (const auto known = parse_word<Enum>(word)) {
      into = *known;
    } else {
      refuse(section, name, "\"" + word + "\" is none of " + all_words<Enum>());
    }
  }

  void read_duration(const char* section, const char* name, milliseconds& into) {
    std::string text;
    if (!read_text(section, name, text)) return;
    if (const auto parsed = parse_duration(text)) {
      into = *parsed;
    } else {
      refuse(section, name, parsed.error().message);
    }
  }

  void read_bytes(const char* section, const char* name, uint64_t& into) {
    std::string text;
    if (!read_text(section, name, text)) return;
    if (const auto parsed = parse_bytes(text)) {
      into = *parsed;
    } else {
      refuse(section, name, parsed.error().message);
    }
  }

  void refuse(const char* section, const char* name, const std::string& why) {
    if (!error_.empty()) return;
    const std::string path =
        *section == '\0' ? std::string(name) : std::string(section) + "." + name;
    error_ = "spec." + path + ": " + why;
  }

  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  const json* find(const char* section, const char* name) {
    if (!error_.empty()) return nullptr;
    const json& object = *section == '\0' ? spec_ : child(spec_, section);
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  bool read_text(const char* section, const char* name, std::string& into) {
    const json* value = find(section, name);
    if (value == nullptr) return false;
    if (value->is_number_integer()) {  // quantities may be written as plain numbers
      into = std::to_string(value->get<int64_t>());
      return true;
    }
    read(section, name, into);
    return error_.empty();
  }

  const json& spec_;
  std::string error_;
};

void read_spec(SpecReader& reader, CompileCacheSpec& spec) {
  reader.read("storage", "claimName", spec.storage.claim_name);
  reader.read("storage", "subPath", spec.storage.sub_path);
  reader.read("storage", "allowReadWriteOnce", spec.storage.allow_read_write_once);
  reader.read("storage", "allowNodeAffinity", spec.storage.allow_node_affinity);
  reader.read("storage", "adopt", spec.storage.adopt);
  reader.read("", "frameworks", spec.frameworks);
  reader.read("", "version", spec.version);
  reader.read("", "key", spec.key);

  std::string fallback = "Compatible";
  reader.read("load", "fallback", fallback);
  spec.load.fallback_compatible = fallback != "Exact";
  reader.read_duration("load", "waitForFirst", spec.load.wait_for_first);
  reader.read_duration("load", "timeout", spec.load.timeout);

  reader.read_word("save", "policy", spec.save.policy);
  reader.read_duration("save", "quietPeriod", spec.save.quiet_period);
  reader.read_duration("save", "atTermination", spec.save.at_termination);
  reader.read_bytes("save", "maxArchiveSize", spec.save.max_archive_size);
  reader.read_duration("save", "lockTimeout", spec.save.lock_timeout);
  reader.read("save", "allowedServiceAccounts", spec.save.allowed_service_accounts);
  reader.read_number("save", "runAsUser", spec.save.run_as_user);

  reader.read_duration("retention", "unusedFor", spec.retention.unused_for);
  reader.read_bytes("retention", "maxTotalSize", spec.retention.max_total_size);
  reader.read("retention", "keepPerGPU", spec.retention.keep_per_gpu);
  reader.read_duration("retention", "incompleteTimeout", spec.retention.incomplete_timeout);
  reader.read_duration("retention", "sweepInterval", spec.retention.sweep_interval);

  reader.read("compression", "level", spec.compression.level);
  reader.read("compression", "threads", spec.compression.threads);
  reader.read_bytes("compression", "window", spec.compression.window);
}

void read_redis(const json& spec, CompileCacheSpec::Redis& redis) {
  const json& found = child(child(spec, "remoteCache"), "redis");
  redis.host = field<std::string>(found, "host", "");
  redis.port = field<int>(found, "port", 6379);
}

bool contains(std::initializer_list<std::string_view> allowed, const std::string& value) {
  for (const std::string_view candidate : allowed) {
    if (candidate == value) return true;
  }
  return false;
}

// What the schema refuses too; repeated for objects that no API server has seen.
void check_spec(SpecReader& reader, const CompileCacheSpec& spec) {
  if (spec.storage.claim_name.empty() && spec.redis.host.empty()) {
    reader.refuse(
        "storage", "claimName",
        "is required; name a PersistentVolumeClaim of the namespace, or a Redis server in "
        "spec.remoteCache.redis");
  }
  if (spec.storage.sub_path.starts_with('/') ||
      spec.storage.sub_path.find("..") != std::string::npos) {
    reader.refuse("storage", "subPath", "must be a relative path without \"..\"");
  }
  if (spec.save.run_as_user && !is_user(*spec.save.run_as_user)) {
    reader.refuse("save", "runAsUser", "must be from 0 to " + std::to_string(kLargestUser));
  }
  for (const std::string& part : spec.key) {
    if (!contains({"GPUProduct", "GPUCount", "Architecture", "Image", "Workload", "DriverVersion",
                   "CPUFeatures"},
                  part)) {
      reader.refuse("", "key", "\"" + part + "\" is not a part that keys can have");
    }
  }
  if (spec.compression.level < 1 || spec.compression.level > 19) {
    reader.refuse("compression", "level", "must be from 1 to 19");
  }
  if (spec.compression.threads < 1 || spec.compression.threads > 16) {
    reader.refuse("compression", "threads", "must be from 1 to 16");
  }
  if (spec.compression.window < (1U << 20) || spec.compression.window > (16U << 20) ||
      !std::has_single_bit(spec.compression.window)) {
    reader.refuse("compression", "window", "must be one of 1Mi, 2Mi, 4Mi, 8Mi, 16Mi");
  }
  if (spec.retention.keep_per_gpu < 1)
    reader.refuse("retention", "keepPerGPU", "must be at least 1");
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

// What is none goes: pods that are given it would be refused.
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
  parsed.seconds_saved = field<int64_t>(status, "secondsSaved", 0);
  for (const json& item : child(status, "condemned")) {
    parsed.condemned.push_back(
        {field<std::string>(item, "digest", ""), field<std::string>(item, "since", "")});
  }
  parsed.crashing = field<std::vector<std::string>>(status, "crashing", {});
  parsed.file_owners = parse_file_owners(child(status, "fileOwners"));
  parsed.stuck_pods = field<std::vector<std::string>>(status, "stuckPods", {});
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
  meta.labels = field<std::map<std::string, std::string>>(metadata, "labels", {});
  meta.annotations = field<std::map<std::string, std::string>>(metadata, "annotations", {});
  return meta;
}

Result<CompileCache> parse_compile_cache(const json& object) {
  CompileCache cache;
  cache.metadata = object_meta(object);
  const json& spec = child(object, "spec");
  SpecReader reader(spec);
  read_spec(reader, cache.spec);
  read_redis(spec, cache.spec.redis);
  check_spec(reader, cache.spec);
  if (!reader.error().empty()) {
    return fail(ErrorCode::kInvalid,
                "reading CompileCache " + cache.metadata.key() + ": " + reader.error());
  }
  cache.status = parse_status(child(object, "status"));
  return cache;
}

json to_json(const CompileCacheStatus& status) {
  json object{
      {"observedGeneration", status.observed_generation},
      {"conditions", conditions_json(status.conditions)},
      {"archives", status.archives},
      {"gpuProducts", status.gpu_products},
      {"totalBytes", status.total_bytes},
      {"activePods", status.active_pods},
      {"loads",
       {{"exact", status.loads.exact},
        {"compatible", status.loads.compatible},
        {"missing", status.loads.missing},
        {"failed", status.loads.failed}}},
      {"effect",
       {{"full", status.effect.full},
        {"partial", status.effect.partial},
        {"none", status.effect.none},
        {"unused", status.effect.unused},
        {"unknown", status.effect.unknown}}},
      {"saves",
       {{"committed", status.saves.committed},
        {"unchanged", status.saves.unchanged},
        {"refused", status.saves.refused},
        {"failed", status.saves.failed}}},
      {"recent", recent_json(status.recent)},
      {"secondsSaved", status.seconds_saved},
      {"condemned", json::array()},
      {"crashing", status.crashing},
      {"fileOwners", file_owners_json(status.file_owners)},
      {"stuckPods", status.stuck_pods},
  };
  for (const CondemnedBlob& blob : status.condemned) {
    object["condemned"].push_back({{"digest", blob.digest}, {"since", blob.since}});
  }
  object["summary"] = {{"size", format_bytes(static_cast<uint64_t>(status.total_bytes))},
                       {"loads", summary(status.loads)},
                       {"effect", summary(status.effect)},
                       {"saves", summary(status.saves)}};
  set_if(object, "lastSaveTime", status.last_save_time);
  if (!status.last_sweep.time.empty()) {
    object["lastSweep"] = {{"time", status.last_sweep.time},
                           {"freedBytes", status.last_sweep.freed_bytes},
                           {"removedArchives", status.last_sweep.removed_archives},
                           {"removedIncomplete", status.last_sweep.removed_incomplete}};
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
