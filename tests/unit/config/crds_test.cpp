#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "api/choices.hpp"
#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "api/outcomes.hpp"
#include "api/summary.hpp"
#include "base/strings.hpp"
#include "tests/unit/api/full_recent_pod.hpp"
#include "tests/unit/config/yaml_json.hpp"

// The schemas in crds/ and the structs in api/ describe the same objects. The API server drops
// fields that it does not know, and its defaults must be those of the programs.

namespace compilecache::api {
namespace {

using nlohmann::json;
using testing::read_yaml_file;

json schema(const std::string& file, const std::string& part) {
  return read_yaml_file(
      file)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part];
}

// `kubectl explain` does not show defaults, so the descriptions say them. Calls f(path, property)
// for each property.
template <typename F>
void for_each_property(const json& schema, const std::string& path, const F& f) {
  if (schema.contains("items")) for_each_property(schema["items"], path + "[]", f);
  if (!schema.contains("properties")) return;
  for (const auto& [name, property] : schema["properties"].items()) {
    const std::string inner = path.empty() ? name : path + "." + name;
    f(inner, property);
    for_each_property(property, inner, f);
  }
}

std::string default_in_words(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> items;
  for (const json& item : value) items.push_back(default_in_words(item));
  return join(items, ", ");
}

// As the API server fills in defaults: of an object's absent fields, then of the fields of each.
void fill_defaults(const json& schema, json& object) {
  if (!object.is_object() || !schema.contains("properties")) return;
  for (const auto& [name, property] : schema["properties"].items()) {
    if (!object.contains(name) && property.contains("default")) object[name] = property["default"];
    if (object.contains(name)) fill_defaults(property, object[name]);
  }
}

// "save.quietPeriod", "recent[].pod": every field that has no fields of its own.
std::set<std::string> leaves(const json& schema, const std::string& path) {
  if (schema.contains("items")) return leaves(schema["items"], path + "[]");
  if (!schema.contains("properties")) return {path};
  std::set<std::string> found;
  for (const auto& [name, property] : schema["properties"].items()) {
    found.merge(leaves(property, path.empty() ? name : path + "." + name));
  }
  return found;
}

std::set<std::string> leaves_of_value(const json& value, const std::string& path) {
  if (value.is_array() && !value.empty()) return leaves_of_value(value[0], path + "[]");
  if (value.is_array()) return {path + "[]"};
  if (!value.is_object()) return {path};
  std::set<std::string> found;
  for (const auto& [name, child] : value.items()) {
    found.merge(leaves_of_value(child, path.empty() ? name : path + "." + name));
  }
  return found;
}

Result<CompileCache> parse_spec(const json& spec) {
  return parse_compile_cache({{"metadata", {{"name", "a"}, {"namespace", "b"}}}, {"spec", spec}});
}

json other_than_default() {
  return json::parse(R"({
    "storage": {"claimName": "c", "subPath": "d", "allowReadWriteOnce": true, "allowNodeAffinity": true,
                "allowUserNamespaces": true,
                "adopt": true, "copyFrom": {"cache": "j", "claimName": "k", "subPath": "l"}},
    "frameworks": ["vllm"], "version": "v2", "key": ["GPUProduct"],
    "load": {"fallback": "Exact", "waitForFirst": "1s", "timeout": "2s"},
    "save": {"policy": "Once", "quietPeriod": "3s", "atTermination": "4s", "maxArchiveSize": "5Mi",
             "lockTimeout": "6s", "allowedServiceAccounts": ["e"],
             "runAsUser": 15},
    "retention": {"unusedFor": "7h", "maxTotalSize": "8Gi", "keepPerGPU": 9, "incompleteTimeout": "10s",
                  "sweepInterval": "11h"},
    "remoteCache": {"redis": {"host": "f", "port": 12}},
    "compression": {"level": 13, "threads": 14, "window": "1Mi"}, "startKit": true, "delivery": "Sidecar", "trust": {"publicKeys": ["a key"]},
    "resources": {"load": {"requests": {"cpu": "101m", "memory": "65Mi", "ephemeral-storage": "66Mi"},
                           "limits": {"cpu": 1, "memory": "165Mi", "ephemeral-storage": "166Mi"}},
                  "save": {"requests": {"cpu": "102m", "memory": "67Mi", "ephemeral-storage": "68Mi"},
                           "limits": {"cpu": "2", "memory": "167Mi", "ephemeral-storage": "168Mi"}}}})");
}

TEST(CompileCacheCrd, DefaultsAreThoseOfTheStruct) {
  json spec{{"storage", {{"claimName", "c"}}}};
  fill_defaults(schema("crds/compilecaches.yaml", "spec"), spec);
  ASSERT_EQ(spec["save"]["quietPeriod"], "30s");  // the defaults were found
  CompileCacheSpec expected;
  expected.storage = {.claim_name = "c"};
  const auto parsed = parse_spec(spec);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->spec, expected);
}

TEST(CompileCacheCrd, EveryFieldOfTheSpecHasADefaultButThoseThatNeedNone) {
  json spec{{"storage", {{"claimName", "c"}}}};
  const json spec_schema = schema("crds/compilecaches.yaml", "spec");
  fill_defaults(spec_schema, spec);
  std::set<std::string> expected = leaves(spec_schema, "");
  std::erase_if(expected, [](const auto& path) {
    return path.starts_with("storage.registry.") || path.starts_with("storage.copyFrom.") ||
           path.starts_with("resources.");
  });
  expected.erase("save.runAsUser");
  expected.erase("remoteCache.redis.host");
  expected.erase("remoteCache.redis.port");
  EXPECT_EQ(leaves_of_value(spec, ""), expected);
}

json in_a_registry(json spec) {
  spec["storage"] = {
      {"adopt", true},
      {"registry",
       {{"repository", "r.example.com/g"}, {"secretName", "h"}, {"caConfigMapName", "i"}}},
      {"copyFrom",
       {{"registry",
         {{"repository", "r.example.com/m"}, {"secretName", "n"}, {"caConfigMapName", "o"}}}}}};
  return spec;
}

TEST(CompileCacheCrd, EveryFieldOfTheSpecIsTried) {
  std::set<std::string> tried = leaves_of_value(other_than_default(), "");
  tried.merge(leaves_of_value(in_a_registry(json::object()), ""));
  EXPECT_EQ(tried, leaves(schema("crds/compilecaches.yaml", "spec"), ""));
}

// Each field in the schema reaches the struct: changing it changes the struct.
void expect_every_field_is_read(const json& changed) {
  const auto all = parse_spec(changed);
  ASSERT_TRUE(all) << all.error().message;
  const json flat = changed.flatten();
  for (const auto& pointer : flat.items()) {
    json without = changed;
    const json::json_pointer path(pointer.key());
    const std::set<std::string> needed{
        "/storage/claimName", "/storage/registry/repository", "/storage/copyFrom/claimName",
        "/storage/copyFrom/registry/repository", "/remoteCache/redis/host"};
    if (needed.contains(pointer.key())) continue;
    if (without[path.parent_pointer()].is_array()) {
      without[path.parent_pointer()] = json::array({"GPUCount"});
    } else {
      without[path.parent_pointer()].erase(path.back());
    }
    const auto parsed = parse_spec(without);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_NE(parsed->spec, all->spec) << pointer.key() << " is not read";
  }
}

TEST(CompileCacheCrd, EveryFieldOfTheSpecIsRead) {
  expect_every_field_is_read(other_than_default());
  expect_every_field_is_read(in_a_registry(other_than_default()));
}

CompileCacheStatus full_status() {
  CompileCacheStatus status;
  status.store = "registry";
  status.gpu_products = status.total_bytes = status.active_pods = status.seconds_saved = 1;
  status.loads = {1, 1, 1, 1};
  status.effect = {1, 1, 1, 1, 1};
  status.saves = {1, 1, 1, 1};
  status.adopted_store = "harbor.example.com/ml/llama";
  status.conditions.push_back({"Ready", "True", "Ready", "all is well", "2026-01-01T00:00:00Z", 1});
  status.recent = {full_recent_pod()};
  status.last_save_time = "2026-01-01T00:00:00Z";
  status.last_sweep = {"2026-01-01T00:00:00Z", 1, 2, 3};
  status.last_copy = {"claim caches, old", "2026-01-01T00:00:00Z", 4, 1, "no room"};
  status.condemned.push_back({"sha256:1", "2026-01-01T00:00:00Z"});
  status.crashing = {"sha256:2"};
  status.file_owners = {{"app:1", 1000, true, "2026-01-01T00:00:00Z"}};
  status.stuck_pods = {"pod"};
  status.sweep_job = "uid";
  status.breaker = {"Open", "2026-01-01T00:00:00Z", 1, 2, "2026-01-01T00:00:00Z",
                    "node", "2026-01-01T00:00:00Z"};
  return status;
}

TEST(CompileCacheCrd, TheStatusHasTheFieldsOfTheSchema) {
  std::set<std::string> status = leaves_of_value(to_json(full_status()), "");
  EXPECT_EQ(status.erase("recent[].key.GPUProduct"), 1);
  status.insert("recent[].key");
  EXPECT_EQ(status, leaves(schema("crds/compilecaches.yaml", "status"), ""));
}

TEST(CompileCacheCrd, CountersAreShownInWords) {
  CompileCacheStatus status;
  status.total_bytes = 592 << 10;
  status.loads = {3, 0, 1, 0};
  status.effect = {2, 1, 0, 0, 0};
  status.saves = {4, 7, 0, 1};
  const json summary = to_json(status)["summary"];
  EXPECT_EQ(summary["size"], "592Ki");
  EXPECT_EQ(summary["loads"], "3 exact, 1 missing");
  EXPECT_EQ(summary["effect"], "2 full, 1 partial");
  EXPECT_EQ(summary["saves"], "4 committed, 1 failed");
  EXPECT_EQ(summary["hits"], "75%");
  EXPECT_EQ(summary["mainEffect"], "67% full");
}

TEST(CompileCacheCrd, ColumnsAreShort) {
  EXPECT_EQ(hit_rate({}), "");
  EXPECT_EQ(hit_rate({.missing = 3}), "0%");
  EXPECT_EQ(hit_rate({.exact = 1, .compatible = 1, .failed = 1}), "67%");
  EXPECT_EQ(hit_rate({.exact = 999, .missing = 1}), "99%") << "not all of them";
  EXPECT_EQ(hit_rate({.exact = 1, .missing = 999}), "1%") << "not none of them";
  EXPECT_EQ(main_effect({}), "");
  EXPECT_EQ(main_effect({.none = 2}), "none");
  EXPECT_EQ(main_effect({.full = 1, .none = 3}), "75% none");
  EXPECT_EQ(main_effect({.full = 2, .partial = 2}), "50% full");
  EXPECT_EQ(time_saved(0), "");
  EXPECT_EQ(time_saved(59), "59s");
  EXPECT_EQ(time_saved(12 * 60 + 1), "12m");
  EXPECT_EQ(time_saved((5 * 60 + 12) * 60), "5h12m");
  EXPECT_EQ(time_saved((3 * 24 + 4) * 3600), "3d4h");
}

TEST(CompileCacheCrd, DescriptionsSayTheDefaults) {
  int checked = 0;
  for_each_property(schema("crds/compilecaches.yaml", "spec"), "",
                    [&](const std::string& path, const json& property) {
                      if (!property.contains("default")) return;
                      const json& value = property["default"];
                      if (value.empty() || (value.is_string() && value.get<std::string>().empty()))
                        return;
                      const std::string text = "Default: " + default_in_words(value) + ".";
                      EXPECT_TRUE(property.value("description", "").ends_with(text))
                          << path << ": " << text;
                      ++checked;
                    });
  EXPECT_GT(checked, 20);
}

// `kubectl describe cc` is short: what has not happened is not in it.
TEST(CompileCacheCrd, ZerosAndEmptyListsAreLeftOut) {
  CompileCacheStatus status;
  status.observed_generation = 1;
  status.conditions.push_back({"Ready", "True", "Ready", "all is well", "2026-01-01T00:00:00Z", 1});
  status.saves.committed = 1;
  EXPECT_EQ(to_json(status), (json{{"observedGeneration", 1},
                                   {"conditions", conditions_json(status.conditions)},
                                   {"archives", 0},
                                   {"saves", {{"committed", 1}}},
                                   {"summary", {{"saves", "1 committed"}}}}));
}

CompileCacheArchive full_archive() {
  CompileCacheArchive archive;
  archive.metadata.name = "a-1";
  archive.cache = "a";
  archive.key = {{"GPUProduct", "H100"}};
  archive.store = VolumeRef{"b", "c", "d"};
  archive.head = {"sha256:1", 1, 2, 3, 4, 5, 6.5, 7, "time", "pod", "image", {"sha256:1"}};
  archive.head.service_account = "default";
  archive.head.workload = "Deployment/llama";
  archive.head.earlier_accounts = {"build"};
  archive.previous = archive.head;
  archive.lock = {"uid/nonce", "pod", 7, "time"};
  archive.last_used_time = "time";
  archive.distrusted.push_back({"sha256:1", DistrustReason::kVerificationFailed, "time"});
  archive.ranks.push_back({"worker-index=1", "vllm/AB", {"rank_1_0"}, 3, "uid", true});
  archive.conditions.push_back({"Suspect", "False", "Whole", "", "time", 1});
  return archive;
}

template <Worded Enum>
std::set<std::string> metric_labels() {
  std::set<std::string> labels;
  for (const auto& known : kWords<Enum>) labels.emplace(known.metric);
  return labels;
}

// A counter for each word of its enumeration.
TEST(CompileCacheCrd, WordsAreThoseOfTheTables) {
  const json spec = schema("crds/compilecaches.yaml", "spec");
  EXPECT_EQ(spec["properties"]["save"]["properties"]["policy"]["enum"].get<std::set<std::string>>(),
            metric_labels<SavePolicy>());
  const json status = schema("crds/compilecaches.yaml", "status")["properties"];
  EXPECT_EQ(leaves(status["loads"], ""), metric_labels<LoadOutcome>());
  EXPECT_EQ(leaves(status["effect"], ""), metric_labels<Effect>());
  EXPECT_EQ(leaves(status["saves"], ""), metric_labels<SaveOutcome>());
  const json recent = status["recent"]["items"]["properties"];
  const auto expect_told = [&](const char* field, std::string_view word) {
    EXPECT_NE(recent[field]["description"].get<std::string>().find(word), std::string::npos)
        << field << ": " << word;
  };
  for (const auto& known : kWords<LoadOutcome>) expect_told("load", known.word);
  for (const auto& known : kWords<Effect>) expect_told("effect", known.word);
  for (const auto& known : kWords<SaveOutcome>) expect_told("save", known.word);
}

TEST(CompileCacheArchiveCrd, TheListOfDistrustedBlobsIsAsLongAsTheSchemaTakes) {
  const json list = schema("crds/compilecachearchives.yaml", "status")["properties"]["distrusted"];
  EXPECT_EQ(list["maxItems"], kMostDistrusted);
  const std::string reasons = list["items"]["properties"]["reason"]["description"];
  for (const auto& known : kWords<DistrustReason>) {
    EXPECT_NE(reasons.find(known.word), std::string::npos) << known.word;
  }
}

TEST(CompileCacheArchiveCrd, TheObjectHasTheFieldsOfTheSchema) {
  std::set<std::string> spec = leaves_of_value(new_archive_json(full_archive())["spec"], "");
  CompileCacheArchive elsewhere = full_archive();
  elsewhere.store = RegistryRef{.host = "r.example.com", .repository = "c/b/a", .parent = "c"};
  spec.merge(leaves_of_value(new_archive_json(elsewhere)["spec"], ""));
  EXPECT_EQ(spec.erase("key.GPUProduct"), 1);
  spec.insert("key");
  EXPECT_EQ(spec, leaves(schema("crds/compilecachearchives.yaml", "spec"), ""));

  EXPECT_EQ(leaves_of_value(status_json(full_archive()), ""),
            leaves(schema("crds/compilecachearchives.yaml", "status"), ""));
}

}  // namespace
}  // namespace compilecache::api
