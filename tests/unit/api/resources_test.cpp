#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "tests/unit/api/full_recent_pod.hpp"

namespace compilecache::api {
namespace {

using nlohmann::json;

json minimal() {
  return {{"metadata", {{"name", "c"}, {"namespace", "n"}, {"generation", 3}}},
          {"spec", {{"storage", {{"claimName", "claim"}}}}}};
}

TEST(CompileCache, DefaultsAreThoseOfTheDesign) {
  const auto cache = parse_compile_cache(minimal());
  ASSERT_TRUE(cache);
  EXPECT_EQ(cache->metadata.key(), "n/c");
  EXPECT_EQ(cache->spec.frameworks, (std::vector<std::string>{"torch", "triton"}));
  EXPECT_EQ(cache->spec.load.timeout, std::chrono::seconds(120));
  EXPECT_EQ(cache->spec.retention.max_total_size, 50ULL << 30);
  EXPECT_EQ(cache->spec.load.fallback, LoadFallback::kCompatible);
}

TEST(CompileCache, ReadsEveryPartOfTheSpec) {
  json object = minimal();
  object["spec"]["load"] = {{"fallback", "Exact"}, {"waitForFirst", "2m"}, {"timeout", "5s"}};
  object["spec"]["save"] = {{"policy", "Once"}, {"maxArchiveSize", "2Gi"}, {"quietPeriod", "1s"}};
  object["spec"]["retention"] = {{"unusedFor", "10s"}, {"keepPerGPU", 2}, {"maxTotalSize", 1000}};
  object["spec"]["remoteCache"] = {{"redis", {{"host", "redis.ml.svc"}}}};
  const auto cache = parse_compile_cache(object);
  ASSERT_TRUE(cache) << cache.error().message;
  EXPECT_EQ(cache->spec.load.fallback, LoadFallback::kExact);
  EXPECT_EQ(cache->spec.load.wait_for_first, std::chrono::minutes(2));
  EXPECT_EQ(cache->spec.save.max_archive_size, 2ULL << 30);
  EXPECT_EQ(cache->spec.retention.max_total_size, 1000U);
  EXPECT_EQ(cache->spec.remote_cache.redis.host, "redis.ml.svc");
  EXPECT_EQ(cache->spec.remote_cache.redis.port, 6379);
}

TEST(CompileCache, ARedisServerIsEnoughWithoutStorage) {
  json object = minimal();
  object["spec"].erase("storage");
  EXPECT_FALSE(parse_compile_cache(object));
  object["spec"]["remoteCache"] = {{"redis", {{"host", "redis"}}}};
  const auto cache = parse_compile_cache(object);
  ASSERT_TRUE(cache) << cache.error().message;
  EXPECT_FALSE(cache->spec.storage);
  EXPECT_FALSE(store_of(*cache));
}

TEST(CompileCache, ErrorsNameTheField) {
  const auto message_for = [](const char* section, const char* name, const json& value) {
    json object = minimal();
    (*section == '\0' ? object["spec"] : object["spec"][section])[name] = value;
    const auto cache = parse_compile_cache(object);
    return cache ? std::string("accepted") : cache.error().message;
  };
  EXPECT_NE(message_for("load", "timeout", "soon").find("spec.load.timeout"), std::string::npos);
  EXPECT_NE(message_for("save", "policy", "Always").find("spec.save.policy"), std::string::npos);
  EXPECT_NE(message_for("", "key", {"GPU"}).find("spec.key"), std::string::npos);
  EXPECT_NE(message_for("storage", "claimName", "").find("spec.storage.claimName"),
            std::string::npos);
  EXPECT_NE(message_for("storage", "subPath", "../x").find("spec.storage.subPath"),
            std::string::npos);
  EXPECT_NE(message_for("retention", "keepPerGPU", "two").find("spec.retention.keepPerGPU"),
            std::string::npos);
}

TEST(CompileCache, OnlyAWholeNumberIsOneAndOneThatFits) {
  json object = minimal();
  for (const json& value : {json(2.5), json("2"), json(true), json(int64_t{1} << 40)}) {
    object["spec"]["retention"] = {{"keepPerGPU", value}};
    const auto cache = parse_compile_cache(object);
    ASSERT_FALSE(cache) << value;
    EXPECT_NE(cache.error().message.find("n/c: spec.retention.keepPerGPU: "), std::string::npos)
        << cache.error().message;
  }
}

TEST(CompileCache, NullIsTheDefault) {
  json object = minimal();
  object["spec"]["load"] = nullptr;
  object["spec"]["save"] = {{"quietPeriod", nullptr}};
  const auto cache = parse_compile_cache(object);
  ASSERT_TRUE(cache) << cache.error().message;
  EXPECT_EQ(cache->spec, parse_compile_cache(minimal())->spec);
}

TEST(StoreRef, IsOfTheVolumeForLimitsAndOfTheFolderForItself) {
  json object = minimal();
  const auto plain = store_of(*parse_compile_cache(object));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->id(), "volume/n/claim");
  EXPECT_EQ(plain->volume()->path, "c");
  object["spec"]["storage"]["subPath"] = "team/a";
  const auto below = store_of(*parse_compile_cache(object));
  EXPECT_EQ(below->volume()->path, "team/a/c");
  EXPECT_EQ(below->id(), plain->id());
  EXPECT_NE(below, plain);
  object["spec"]["storage"]["claimName"] = "other";
  EXPECT_NE(store_of(*parse_compile_cache(object))->id(), plain->id());
}

TEST(CompileCache, StatusRoundTrips) {
  CompileCacheStatus status;
  status.observed_generation = 3;
  set_condition(status.conditions, {"Ready", "True", "Ready", "fine", "", 3},
                "2024-01-01T00:00:00Z");
  status.loads.exact = 2;
  status.effect.full = 1;
  status.recent = {full_recent_pod()};
  status.last_sweep = {"2024-01-01T00:00:00Z", 10, 1, 2};
  status.condemned = {{"sha256:aa", "2024-01-01T00:00:00Z"}};
  status.crashing = {"sha256:bb"};
  json object = minimal();
  object["status"] = to_json(status);
  const auto cache = parse_compile_cache(object);
  ASSERT_TRUE(cache);
  EXPECT_EQ(to_json(cache->status), to_json(status));
  EXPECT_EQ(cache->status.recent, status.recent);
}

TEST(RecentPods, AreWhatTheyWere) {
  EXPECT_TRUE(RecentPods().list().empty());
  const RecentPod one{.pod = "p",
                      .pod_uid = "u-1",
                      .key = {{"GPUProduct", "G"}, {"Image", "i"}},
                      .milliseconds = 12,
                      .compiled = {"a", "b", "c"},
                      .time = "2024-01-01T00:00:00Z"};
  RecentPod other = one;
  other.key["Image"] = "another";
  other.key["Version"] = "";
  other.compiled = {"b"};
  other.differing = {"", "c"};
  other.pod = std::string("\0q", 2);
  other.archive = "";
  other.reason = std::string(300, 'r');
  other.milliseconds = -1;
  const std::vector<RecentPod> pods{one, one, other, RecentPod{}, one};
  EXPECT_EQ(RecentPods(pods).list(), pods);
  EXPECT_NE(RecentPods(pods), RecentPods({one}));
}

TEST(Conditions, TransitionTimeMovesWithTheStatusOnly) {
  std::vector<Condition> conditions;
  EXPECT_TRUE(set_condition(conditions, {"Ready", "False", "A", "a", "", 1}, "t1"));
  EXPECT_FALSE(set_condition(conditions, {"Ready", "False", "A", "a", "", 1}, "t2"));
  EXPECT_TRUE(set_condition(conditions, {"Ready", "False", "B", "b", "", 1}, "t3"));
  EXPECT_EQ(find_condition(conditions, "Ready")->last_transition_time, "t1");
  EXPECT_TRUE(set_condition(conditions, {"Ready", "True", "C", "", "", 1}, "t4"));
  EXPECT_EQ(find_condition(conditions, "Ready")->last_transition_time, "t4");
  EXPECT_EQ(find_condition(conditions, "Stalled"), nullptr);
}

TEST(CompileCacheArchive, RoundTripsAndCarriesTheProductAsALabel) {
  CompileCacheArchive archive;
  archive.metadata.name = "c-1";
  archive.metadata.ns = "n";
  archive.cache = "c";
  archive.cache_uid = "uid";
  archive.key = {{"GPUProduct", "NVIDIA H100"}};
  archive.head.manifest_digest = "sha256:aa";
  archive.head.blobs = {"sha256:aa", "sha256:bb"};
  archive.head.generation = 4;
  archive.lock = {"pod/nonce", "p", 9, "2024-01-01T00:00:00Z"};
  json object = new_archive_json(archive);
  EXPECT_EQ(object["metadata"]["labels"]["compilecache.dev/gpu-product"], "NVIDIA-H100");
  EXPECT_FALSE(object["metadata"].contains("finalizers"));
  object["status"] = status_json(archive);
  const auto back = parse_archive(object);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->head, archive.head);
  EXPECT_EQ(back->lock, archive.lock);
  EXPECT_FALSE(back->previous.exists());
  EXPECT_EQ(back->cache_uid, "uid");
}

nlohmann::json archive_with(const nlohmann::json& status) {
  return {{"metadata", {{"name", "c-1"}, {"namespace", "n"}}},
          {"spec", {{"cache", "c"}}},
          {"status", status}};
}

std::string some_digest(char digit) { return "sha256:" + std::string(64, digit); }

nlohmann::json condition(const char* type, const char* status, const std::string& reason,
                         const std::string& message) {
  return {{"type", type},
          {"status", status},
          {"reason", reason},
          {"message", message},
          {"lastTransitionTime", "2026-01-02T03:04:05Z"}};
}

TEST(CompileCacheArchive, WhatIsDistrustedIsAField) {
  CompileCacheArchive archive = *parse_archive(archive_with({}));
  EXPECT_FALSE(status_json(archive).contains("distrusted"));
  archive.distrusted = {{some_digest('1'), DistrustReason::kPodsCrashed, "2026-01-02T03:04:05Z"},
                        {some_digest('2'), DistrustReason::kVerificationFailed, ""}};
  EXPECT_EQ(parse_archive(archive_with(status_json(archive)))->distrusted, archive.distrusted);
  const auto later = parse_archive(
      archive_with({{"distrusted", {{{"digest", some_digest('3')}, {"reason", "Revoked"}}}}}));
  ASSERT_EQ(later->distrusted.size(), 1U) << "in the words of another release";
  EXPECT_EQ(later->distrusted[0].reason, DistrustReason::kLoadReportedCorruption);
}

// Objects of 0.1, and what an API server with the schema of 0.1 gives back.
TEST(CompileCacheArchive, WithoutThatFieldTheConditionsMessagesAreRead) {
  const std::string one = some_digest('1'), two = some_digest('2'), three = some_digest('3');
  const auto read = [](const nlohmann::json& status) {
    return parse_archive(archive_with(status))->distrusted;
  };
  const auto found = condition("Suspect", "True", "LoadReportedCorruption",
                               "pod web found " + one + ", " + two + " not to be what it was");
  const auto corrupt = condition("Corrupt", "True", "VerificationFailed", "found " + three);
  const std::string then = "2026-01-02T03:04:05Z";
  EXPECT_EQ(read({{"conditions", {found, corrupt}}}),
            (std::vector<DistrustedBlob>{{one, DistrustReason::kLoadReportedCorruption, then},
                                         {two, DistrustReason::kLoadReportedCorruption, then},
                                         {three, DistrustReason::kVerificationFailed, then}}));
  const auto crashed = condition("Suspect", "True", "PodsCrashed", "that had loaded " + one);
  EXPECT_EQ(read({{"conditions", {crashed}}}),
            (std::vector<DistrustedBlob>{{one, DistrustReason::kPodsCrashed, then}}));
  const auto cleared = condition("Suspect", "False", "Verified", "a sweep has read " + one);
  EXPECT_TRUE(read({{"conditions", {cleared}}}).empty());
  const nlohmann::json field{{{"digest", two}, {"reason", "LoadReportedCorruption"}}};
  EXPECT_EQ(read({{"conditions", {found}}, {"distrusted", field}}),
            (std::vector<DistrustedBlob>{{two, DistrustReason::kLoadReportedCorruption, ""}}))
      << "the message is for people";
}

}  // namespace
}  // namespace compilecache::api
