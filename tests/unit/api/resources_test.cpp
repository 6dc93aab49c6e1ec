#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "api/repository_name.hpp"
#include "tests/unit/api/full_recent_pod.hpp"

namespace compilecache::api {
namespace {

using nlohmann::json;

json minimal() {
  return {{"metadata", {{"name", "c"}, {"namespace", "n"}, {"generation", 3}}},
          {"spec", {{"storage", {{"claimName", "claim"}}}}}};
}

OwnRegistry installed() { return {"compilecache-registry.cc.svc:5000", "10.96.0.7:5000"}; }

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
  EXPECT_FALSE(store_of(*cache, installed()));
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
  EXPECT_NE(message_for("storage", "registry", {{"repository", "r.io/a"}}).find("spec.storage: "),
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
  const auto plain = store_of(*parse_compile_cache(object), installed());
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->id(), "volume/n/claim");
  EXPECT_EQ(plain->volume()->path, "c");
  object["spec"]["storage"]["subPath"] = "team/a";
  const auto below = store_of(*parse_compile_cache(object), installed());
  EXPECT_EQ(below->volume()->path, "team/a/c");
  EXPECT_EQ(below->id(), plain->id());
  EXPECT_NE(below, plain);
  object["spec"]["storage"]["claimName"] = "other";
  EXPECT_NE(store_of(*parse_compile_cache(object), installed())->id(), plain->id());
}

json with_storage(const json& storage) {
  json object = minimal();
  object["spec"]["storage"] = storage;
  return object;
}

TEST(StoreRef, OfAUsersRegistryIsARepositoryOfItsOwn) {
  const auto cache =
      parse_compile_cache(with_storage({{"registry",
                                         {{"repository", "harbor.example.com:8443/ml/caches"},
                                          {"secretName", "robot"},
                                          {"caConfigMapName", "authorities"}}}}));
  ASSERT_TRUE(cache) << cache.error().message;
  const auto store = store_of(*cache, installed());
  ASSERT_TRUE(store && store->registry() != nullptr);
  EXPECT_EQ(*store->registry(), (RegistryRef{.host = "harbor.example.com:8443",
                                             .repository = "ml/caches/n/c",
                                             .parent = "ml/caches",
                                             .secret = "robot",
                                             .ca_config_map = "authorities"}));
  EXPECT_EQ(store->id(), "registry/harbor.example.com:8443/ml/caches");
  EXPECT_EQ(store->volume(), nullptr);
  EXPECT_EQ(store_in_words(*cache), "harbor.example.com:8443/ml/caches");
}

TEST(StoreRef, OfNeitherIsTheInstallationsOwnRegistryWhereThereIsOne) {
  const auto cache = parse_compile_cache(with_storage(json::object()));
  ASSERT_TRUE(cache) << cache.error().message;
  const auto store = store_of(*cache, installed());
  ASSERT_TRUE(store && store->registry() != nullptr);
  EXPECT_EQ(*store->registry(), (RegistryRef{.host = "compilecache-registry.cc.svc:5000",
                                             .repository = "n/c",
                                             .parent = "",
                                             .own = true,
                                             .address = "10.96.0.7:5000",
                                             .secret = "",
                                             .ca_config_map = ""}));
  EXPECT_EQ(store->id(), "registry");
  EXPECT_FALSE(store_of(*cache, {}));
  EXPECT_EQ(store_in_words(*cache), "registry");
}

TEST(StoreRef, WhatIsOfAVolumeIsRefusedWithoutOne) {
  for (const char* field :
       {"subPath", "allowReadWriteOnce", "allowNodeAffinity", "allowUserNamespaces"}) {
    for (json storage : {json::object(), json{{"registry", {{"repository", "r.io/a"}}}}}) {
      storage[field] = std::string_view(field) == "subPath" ? json("a") : json(true);
      const auto cache = parse_compile_cache(with_storage(storage));
      ASSERT_FALSE(cache) << storage;
      EXPECT_NE(cache.error().message.find("spec.storage: subPath, "), std::string::npos)
          << cache.error().message;
    }
  }
}

TEST(StoreRef, OfWhatIsCopiedIsWhereTheOldCompileCacheHasIt) {
  const auto copying = [](const json& from) {
    return parse_compile_cache(with_storage({{"claimName", "new"}, {"copyFrom", from}}));
  };
  const OwnRegistry own{.host = "registry:5000", .address = "10.96.0.7:5000"};
  const auto none = parse_compile_cache(with_storage({{"claimName", "new"}}));
  ASSERT_TRUE(none);
  EXPECT_FALSE(copy_source_of(*none, own));
  EXPECT_EQ(copy_source_in_words(*none), "");

  const auto volume = copying({{"cache", "old"}, {"claimName", "caches"}, {"subPath", "team"}});
  ASSERT_TRUE(volume) << volume.error().message;
  const auto source = copy_source_of(*volume, own);
  ASSERT_TRUE(source && source->volume());
  EXPECT_EQ(source->volume()->claim, "caches");
  EXPECT_EQ(source->volume()->path, "team/old");
  EXPECT_EQ(source->volume()->ns, volume->metadata.ns);
  EXPECT_EQ(copy_source_in_words(*volume), "claim caches/team, old");

  const auto registry = copying({{"registry", {{"repository", "r.io/a"}, {"secretName", "s"}}}});
  ASSERT_TRUE(registry) << registry.error().message;
  const RegistryRef theirs = *copy_source_of(*registry, own)->registry();
  EXPECT_EQ(theirs.repository, "a/" + registry->metadata.ns + "/" + registry->metadata.name);
  EXPECT_EQ(theirs.secret, "s");

  const auto bundled = copying({{"cache", "old"}});
  ASSERT_TRUE(bundled) << bundled.error().message;
  EXPECT_TRUE(copy_source_of(*bundled, own)->registry()->own);
  EXPECT_FALSE(copy_source_of(*bundled, {})) << "there is none";

  for (const json& wrong :
       {json{{"claimName", "a"}, {"registry", {{"repository", "r.io/a"}}}}, json{{"subPath", "a"}},
        json{{"claimName", "a"}, {"subPath", "/b"}}, json{{"cache", "../others/llama"}},
        json{{"cache", ".."}}, json{{"registry", {{"repository", "https://r.io/a"}}}}}) {
    const auto refused = copying(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_NE(refused.error().message.find("spec.storage.copyFrom"), std::string::npos)
        << refused.error().message;
  }
}

TEST(StoreRef, WhatIsCopiedIsSomewhereElse) {
  const auto copies_from_itself = [](const json& storage) {
    const auto cache = parse_compile_cache(with_storage(storage));
    EXPECT_TRUE(cache) << cache.error().message;
    return cache && api::copies_from_itself(*cache);
  };
  const std::string name = parse_compile_cache(with_storage(json::object()))->metadata.name;
  EXPECT_FALSE(copies_from_itself({{"claimName", "a"}}));
  EXPECT_TRUE(copies_from_itself({{"claimName", "a"}, {"copyFrom", {{"claimName", "a"}}}}));
  EXPECT_TRUE(copies_from_itself({{"copyFrom", {{"cache", name}}}}));
  const json registry = {{"repository", "r.io/a"}};
  EXPECT_TRUE(copies_from_itself({{"registry", registry}, {"copyFrom", {{"registry", registry}}}}));
  for (const json& elsewhere :
       {json{{"claimName", "b"}}, json{{"claimName", "a"}, {"cache", "old"}},
        json{{"claimName", "a"}, {"subPath", "b"}}, json{{"registry", registry}}, json::object()})
    EXPECT_FALSE(copies_from_itself({{"claimName", "a"}, {"copyFrom", elsewhere}})) << elsewhere;
}

TEST(RepositoryName, IsAHostAndAPath) {
  for (const auto& [text, host, path] : std::initializer_list<std::array<const char*, 3>>{
           {"harbor.example.com/ml/caches", "harbor.example.com", "ml/caches"},
           {"localhost/a", "localhost", "a"},
           {"10.0.0.7:5000/a__b/c.d/e-_f", "10.0.0.7:5000", ""},
           {"10.0.0.7:5000/a__b/c.d/e--f", "10.0.0.7:5000", "a__b/c.d/e--f"},
           {"[fd00::7]:5000/a", "[fd00::7]:5000", "a"},
           {"[fd00::7]/a", "[fd00::7]", "a"}}) {
    const auto name = parse_repository(text);
    ASSERT_EQ(name.has_value(), *path != '\0') << text;
    if (!name) continue;
    EXPECT_EQ(name->host, host);
    EXPECT_EQ(name->path, path);
  }
}

TEST(RepositoryName, WhatIsWrongIsSaid) {
  for (const auto& [text, sentence] : std::initializer_list<std::array<const char*, 2>>{
           {"", "must have a path"},
           {"harbor.example.com", "must have a path"},
           {"harbor.example.com/", "has a path that registries refuse"},
           {"harbor.example.com/a//b", "has a path that registries refuse"},
           {"harbor.example.com/a..b", "has a path that registries refuse"},
           {"harbor.example.com/-a", "has a path that registries refuse"},
           {"harbor.example.com/a b", "has a path that registries refuse"},
           {"harbor.example.com/../b", "has a path that registries refuse"},
           {"https://harbor.example.com/ml", "must not have a scheme"},
           {"harbor.example.com/ml:v1", "must not have a tag"},
           {"harbor.example.com/ml@sha256:0", "must not have a digest"},
           {"robot@harbor.example.com/ml", "must not have a digest"},
           {"harbor.example.com/ML", "must be in lower case"},
           {"ml/caches", "must begin with the registry's host"},
           {"harbor.example.com:/ml", "must begin with the registry's host"},
           {"harbor.example.com:123456/ml", "must begin with the registry's host"},
           {"-harbor.example.com/ml", "must begin with the registry's host"},
           {"harbor.example.com./ml", "must begin with the registry's host"},
           {"$(X).example.com/ml", "must be in lower case"},
           {"$(x).example.com/ml", "must begin with the registry's host"},
           {"[]:5000/ml", "must begin with the registry's host"},
           {"[fd00::7]5000/ml", "must begin with the registry's host"}}) {
    const auto cache = parse_compile_cache(with_storage({{"registry", {{"repository", text}}}}));
    ASSERT_FALSE(cache) << text;
    const std::string whole = std::string("spec.storage.registry.repository: ") + sentence;
    EXPECT_NE(cache.error().message.find(whole), std::string::npos)
        << text << ": " << cache.error().message;
  }
}

TEST(CompileCacheArchive, NotesTheRepositoryAndNotHowToGetThere) {
  CompileCacheArchive archive;
  archive.metadata = {.name = "c-1", .ns = "n"};
  archive.cache = "c";
  archive.store = RegistryRef{.host = "harbor.example.com",
                              .repository = "ml/caches/n/c",
                              .parent = "ml/caches",
                              .secret = "robot",
                              .ca_config_map = "authorities"};
  json object = new_archive_json(archive);
  EXPECT_EQ(object["spec"]["registry"],
            (json{{"host", "harbor.example.com"}, {"repository", "ml/caches/n/c"}}));
  EXPECT_EQ(parse_archive(object)->store->id(), archive.store->id());
  archive.store =
      RegistryRef{.host = "r.cc.svc:5000", .repository = "n/c", .own = true, .address = "10.0.0.7"};
  object = new_archive_json(archive);
  EXPECT_EQ(object["spec"]["registry"], (json{{"repository", "n/c"}}));
  EXPECT_EQ(parse_archive(object)->store->id(), "registry");
}

TEST(CompileCache, StatusRoundTrips) {
  CompileCacheStatus status;
  status.store = "claim c";
  status.adopted_store = "claim c, llama";
  status.observed_generation = 3;
  set_condition(status.conditions, {"Ready", "True", "Ready", "fine", "", 3},
                "2024-01-01T00:00:00Z");
  status.loads.exact = 2;
  status.effect.full = 1;
  status.recent = {full_recent_pod()};
  status.last_sweep = {"2024-01-01T00:00:00Z", 10, 1, 2};
  status.last_copy = {"claim caches, old", "2024-01-01T00:00:00Z", 3, 1, "no room"};
  status.condemned = {{"sha256:aa", "2024-01-01T00:00:00Z"}};
  status.crashing = {"sha256:bb"};
  json object = minimal();
  object["status"] = to_json(status);
  const auto cache = parse_compile_cache(object);
  ASSERT_TRUE(cache);
  EXPECT_EQ(to_json(cache->status), to_json(status));
  EXPECT_EQ(cache->status.recent, status.recent);
  EXPECT_EQ(cache->status.last_copy, status.last_copy);
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
