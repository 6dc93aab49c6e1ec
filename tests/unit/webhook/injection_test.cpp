#include "webhook/injection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "tests/unit/webhook/golden_case.hpp"
#include "tests/unit/webhook/pods.hpp"
#include "webhook/path_safety.hpp"

namespace compilecache::webhook {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using testing::GoldenCase;
using testing::Injected;
using testing::load_golden_case;
using testing::named;

const json& init_container(const json& pod, const char* name) {
  return *named(pod.at("spec").at("initContainers"), name);
}

TEST(Injection, AnotherVersionsInjectionIsMadeAnew) {
  GoldenCase golden = load_golden_case("deployment");
  const json old = *golden.run(golden.pod).pod;
  golden.settings.version = "2.0.0";
  golden.settings.image = "registry.example/compilecache:2.0.0";
  const Injected renewed = golden.run(old);
  EXPECT_EQ(renewed.report.outcome, InjectionOutcome::kInjected);
  EXPECT_EQ(*renewed.pod, *golden.run(golden.pod).pod);
}

TEST(Injection, AnotherVersionAloneIsReasonEnough) {
  GoldenCase golden = load_golden_case("deployment");
  const json old = *golden.run(golden.pod).pod;
  golden.settings.version = "2.0.0";
  EXPECT_EQ(golden.run(old).report.outcome, InjectionOutcome::kInjected);
}

TEST(Injection, WhatSomebodyTookApartIsMadeAnew) {
  const GoldenCase golden = load_golden_case("deployment");
  const json whole = *golden.run(golden.pod).pod;
  json pod = whole;
  std::erase_if(pod["spec"]["initContainers"].get_ref<json::array_t&>(),
                [](const json& one) { return one.at("name") == "compilecache-save"; });
  EXPECT_EQ(golden.run(pod).pod, whole);
}

TEST(Injection, ChangedSettingsOfTheSameVersionAreNoticed) {
  GoldenCase golden = load_golden_case("own-directory");
  const json old = *golden.run(golden.pod).pod;
  golden.settings.agent_ca = "another";
  EXPECT_EQ(*golden.run(old).pod, *golden.run(golden.pod).pod);
}

TEST(Injection, WherePodsAreNeverHeardOfLoadersAreToldNotToAsk) {
  GoldenCase golden = load_golden_case("deployment");
  const auto asks = [&] {
    const json pod = *golden.run(golden.pod).pod;
    const json& env = init_container(pod, "compilecache-load").at("env");
    return api::parse_agent_config(named(env, api::kConfigVariable)->at("value"))->ask_operator;
  };
  EXPECT_TRUE(asks());
  golden.cache->status.conditions.push_back({api::kPodsUnheardCondition, "True", "Unheard"});
  EXPECT_TRUE(asks()) << "a few are not all";
  golden.cache->status.conditions.back().reason = api::kNotAskedReason;
  EXPECT_FALSE(asks());
  golden.cache->status.conditions.back().status = "False";
  EXPECT_TRUE(asks());
}

TEST(Injection, WhatAnotherWebhookAddedLaterStays) {
  const GoldenCase golden = load_golden_case("deployment");
  json pod = *golden.run(golden.pod).pod;
  pod["spec"]["containers"].push_back({{"name", "late"}, {"image", "late"}});
  pod["spec"]["initContainers"].insert(pod["spec"]["initContainers"].begin(),
                                       json{{"name", "first"}, {"image", "mesh"}});
  // Nothing of the decision depends on them.
  const Injected again = golden.run(pod);
  EXPECT_EQ(again.report.reason, api::InjectionReason::kAlreadyInjected);
  EXPECT_EQ(again.pod, std::nullopt);
}

std::vector<std::string> init_names(const json& pod) {
  std::vector<std::string> names;
  for (const json& one : pod.at("spec").at("initContainers")) names.push_back(one.at("name"));
  return names;
}

TEST(Injection, OursComeAfterTheMeshThatTheyNameWheneverThatIsAdded) {
  const GoldenCase golden = load_golden_case("deployment");
  json asked = golden.pod;
  asked["metadata"]["annotations"][api::kAfterAnnotation] = "istio-proxy";
  const json before_the_mesh = *golden.run(asked).pod;
  EXPECT_THAT(init_names(before_the_mesh), ElementsAre("compilecache-load", "compilecache-save"));
  for (const int at : {0, 1, 2}) {
    json pod = before_the_mesh;
    json& init = pod["spec"]["initContainers"];
    init.insert(init.begin() + at, json{{"name", "istio-proxy"}, {"restartPolicy", "Always"}});
    const Injected again = golden.run(pod);
    const json after = again.pod.value_or(pod);
    EXPECT_THAT(init_names(after),
                ElementsAre("istio-proxy", "compilecache-load", "compilecache-save"))
        << at;
    EXPECT_EQ(golden.run(after).report.reason, api::InjectionReason::kAlreadyInjected);
  }
}

TEST(Injection, AContainerThatCameLaterCanChangeOurResources) {
  const GoldenCase golden = load_golden_case("guaranteed");
  json pod = *golden.run(golden.pod).pod;
  pod["spec"]["containers"].push_back({{"name", "late"}, {"image", "late"}});  // now Burstable
  const Injected again = golden.run(pod);
  ASSERT_EQ(again.report.outcome, InjectionOutcome::kInjected);
  EXPECT_FALSE(init_container(*again.pod, "compilecache-save").contains("resources"));
  EXPECT_NE(named(again.pod->at("spec").at("containers"), "late"), nullptr);
}

TEST(Injection, APodMadeFromAnInjectedOnesManifestLosesItWhereItMayNotBe) {
  GoldenCase golden = load_golden_case("gpu");
  const json old = *golden.run(golden.pod).pod;
  golden.cache.reset();
  const Injected result = golden.run(old);
  EXPECT_EQ(result.report.reason, api::InjectionReason::kCacheNotFound);
  EXPECT_EQ(*result.pod, golden.pod);
}

TEST(Injection, AForgedStatusTakesNothingOfTheUsersAway) {
  const GoldenCase golden = load_golden_case("mesh-before-us");
  json pod = golden.pod;
  api::InjectionStatus forged;
  forged.init_containers = {"istio-init"};
  forged.volumes = {"kube-api-access-abcde"};
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(forged);
  const Injected result = golden.run(pod);
  EXPECT_EQ(*result.pod, *golden.run(golden.pod).pod);
  pod["metadata"]["annotations"][api::kStatusAnnotation] = "injected";
  EXPECT_EQ(*golden.run(pod).pod, *golden.run(golden.pod).pod);
}

// What another webhook set before us, and somebody claims to be ours.
TEST(Injection, AForgedStatusTakesNothingOfAnotherWebhookAway) {
  GoldenCase golden = load_golden_case("deployment");
  json pod = *golden.run(golden.pod).pod;
  auto forged = *api::parse_injection_status(
      pod["metadata"]["annotations"][api::kStatusAnnotation].get<std::string>());
  forged.version = "0.1.0";
  const std::string app = pod["spec"]["containers"][0]["name"];
  for (const char* name : {"POLICY", "PROXY", "TRITON_CACHE_DIR"}) {
    forged.variables.push_back(app + ":" + name);
  }
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(forged);
  const json theirs = {{{"name", "POLICY"}, {"value", "strict"}},
                       {{"name", "PROXY"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "x"}}}}}},
                       {{"name", "TRITON_CACHE_DIR"}, {"value", "/not/mounted"}}};
  json& env = pod["spec"]["containers"][0]["env"];
  std::erase_if(env.get_ref<json::array_t&>(),
                [](const json& one) { return one.at("name") == "TRITON_CACHE_DIR"; });
  for (const json& one : theirs) env.push_back(one);
  for (const bool has_cache : {true, false}) {
    if (!has_cache) golden.cache.reset();
    const json after = golden.run(pod).pod.value_or(pod);
    for (const json& one : theirs) {
      const json& left = after["spec"]["containers"][0]["env"];
      EXPECT_NE(std::find(left.begin(), left.end(), one), left.end()) << one;
    }
  }
}

TEST(Injection, AForgedStatusOfAPodOfOursTakesOnlyWhatHasOurNames) {
  GoldenCase golden = load_golden_case("mesh-before-us");
  json pod = *golden.run(golden.pod).pod;
  auto forged = *api::parse_injection_status(
      pod["metadata"]["annotations"][api::kStatusAnnotation].get<std::string>());
  forged.init_containers.emplace_back("istio-init");
  forged.volumes.emplace_back("kube-api-access-abcde");
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(forged);
  golden.cache.reset();
  const json after = golden.run(pod).pod.value().at("spec");
  EXPECT_NE(named(after.at("initContainers"), "istio-init"), nullptr);
  EXPECT_NE(named(after.at("volumes"), "kube-api-access-abcde"), nullptr);
  EXPECT_EQ(named(after.at("initContainers"), "compilecache-load"), nullptr);
}

TEST(Injection, AStatusBesideNoLabelOfOursIsNobodys) {
  GoldenCase golden = load_golden_case("deployment");
  json pod = *golden.run(golden.pod).pod;
  pod["metadata"]["labels"].erase(api::kCacheLabel);
  golden.cache.reset();
  const Injected result = golden.run(pod);
  EXPECT_EQ(result.pod, std::nullopt);
  EXPECT_EQ(result.report.reason, api::InjectionReason::kCacheNotFound);
}

// A container that we did not add may mount a volume that we did; left so, the pod would be
// refused.
TEST(Injection, NoContainerMountsAVolumeThatWasTakenOut) {
  GoldenCase golden = load_golden_case("own-init-containers-and-sidecars");
  json pod = *golden.run(golden.pod).pod;
  for (json& container : pod["spec"]["initContainers"]) {
    if (container["name"].get<std::string>().starts_with("compilecache-")) continue;
    container["volumeMounts"].push_back({{"name", "compilecache-cache"}, {"mountPath", "/c"}});
  }
  golden.cache.reset();
  const json after = golden.run(pod).pod.value();
  EXPECT_EQ(after.dump().find("compilecache-cache"), std::string::npos);
}

TEST(Injection, WarnsOfAGroupOfKueuesWhoseRoleHasNoName) {
  GoldenCase golden = load_golden_case("remote-cache");
  const auto unnamed = ::testing::Contains(::testing::HasSubstr("kueue.x-k8s.io/role-hash"));
  EXPECT_THAT(golden.run(golden.pod).report.warnings, ::testing::Not(unnamed));
  golden.pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "workers";
  EXPECT_THAT(golden.run(golden.pod).report.warnings, unnamed);
  golden.pod["metadata"]["annotations"]["kueue.x-k8s.io/role-hash"] = "worker";
  EXPECT_THAT(golden.run(golden.pod).report.warnings, ::testing::Not(unnamed));
}

TEST(Injection, AHostIsNothingButAHost) {
  for (const char* host : {"$(DB_PASSWORD).evil.example", "a b", "", "redis;x", "-a", "a/b"}) {
    GoldenCase golden = load_golden_case("remote-cache");
    golden.cache->spec.remote_cache.redis.host = host;
    const Injected beside = golden.run(golden.pod);
    ASSERT_EQ(beside.report.reason, api::InjectionReason::kInjected) << host;
    EXPECT_EQ(beside.pod->dump().find("REDIS"), std::string::npos) << host;
    if (*host == '\0') continue;
    EXPECT_THAT(beside.report.warnings, ::testing::Contains(::testing::HasSubstr("redis.host")));
    golden = load_golden_case("remote-cache-alone");
    golden.cache->spec.remote_cache.redis.host = host;
    EXPECT_EQ(golden.run(golden.pod).pod, std::nullopt) << host;
  }
  for (const char* host : {"redis", "redis.ml.svc.", "10.0.0.1", "fd00::1", "::1", "my_redis"}) {
    GoldenCase golden = load_golden_case("remote-cache");
    golden.cache->spec.remote_cache.redis.host = host;
    EXPECT_NE(golden.run(golden.pod).pod->dump().find(std::string("\"") + host + "\""),
              std::string::npos);
  }
}

api::AgentConfig config_of(const json& pod) {
  const json& env = init_container(pod, "compilecache-load").at("env");
  const auto config = api::parse_agent_config(named(env, api::kConfigVariable)->at("value"));
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

TEST(Injection, TheAgentsAreToldWhatCacheAndAnnotationsSay) {
  const GoldenCase golden = load_golden_case("overrides");
  const api::AgentConfig config = config_of(*golden.run(golden.pod).pod);
  EXPECT_EQ(config.cache, "transformer");
  EXPECT_EQ(config.ns, "ml");
  EXPECT_EQ(config.cache_uid, golden.cache->metadata.uid);
  EXPECT_EQ(config.operator_address, "10.96.0.17");
  EXPECT_EQ(config.operator_name, "compilecache-agent-api.compilecache-system.svc");
  EXPECT_EQ(config.operator_ca, golden.settings.agent_ca);
  EXPECT_EQ(store_directory(config), "/compilecache/store/transformer");
  ASSERT_EQ(config.directories.size(), 2U);
  EXPECT_EQ(config.directories[0].path, "/compilecache/cache/torch");
  EXPECT_EQ(config.directories[1].framework.name, "cuda");
  EXPECT_EQ(config.save.quiet_period.count(), 5000);
  EXPECT_EQ(config.load.wait_for_first.count(), 120000);
  EXPECT_EQ(config.key_basis.version, "v7");
  EXPECT_EQ(config.key_basis.image, "registry.example/app:7");
  EXPECT_EQ(config.key_basis.workload, "Deployment/web");
  EXPECT_THAT(config.key_basis.parts, ::testing::Contains("DriverVersion"));
}

TEST(Injection, TheAgentsAreToldHowToCompress) {
  GoldenCase golden = load_golden_case("overrides");
  api::CompileCache cache = *golden.cache;
  cache.spec.compression = {.level = 3, .threads = 4, .window = 1U << 20};
  golden.cache = cache;
  const api::AgentConfig config = config_of(*golden.run(golden.pod).pod);
  EXPECT_EQ(config.compression.level, 3);
  EXPECT_EQ(config.compression.threads, 4);
  EXPECT_EQ(config.compression.window, 1 << 20);
}

TEST(Injection, WhoMaySaveIsTheOperatorsToKnow) {
  GoldenCase golden = load_golden_case("deployment");
  golden.cache->spec.save.allowed_service_accounts = {"somebody-else"};
  const json pod = *golden.run(golden.pod).pod;
  EXPECT_EQ(pod.dump().find("somebody-else"), std::string::npos);
}

// It reads nothing that it would save.
TEST(Injection, TheSaverOfAReadOnlyPodNeedsNoUser) {
  const GoldenCase golden = load_golden_case("saver-user-learned");
  json pod = golden.pod;
  const auto has_user = [&] {
    const json injected = *golden.run(pod).pod;
    return init_container(injected, "compilecache-save")
        .at("securityContext")
        .contains("runAsUser");
  };
  EXPECT_TRUE(has_user());
  pod["metadata"]["annotations"][api::kModeAnnotation] = "ReadOnly";
  EXPECT_FALSE(has_user());
}

TEST(Injection, WhatAQuotaRefusesAnyhowIsNotLeftAloneOnOurAccount) {
  GoldenCase golden = load_golden_case("quota-no-room");
  ASSERT_EQ(golden.run(golden.pod).report.reason, api::InjectionReason::kNoRoomInQuota);
  golden.facts.quotas.at(0).used = golden.facts.quotas.at(0).hard;
  EXPECT_EQ(golden.run(golden.pod).report.outcome, InjectionOutcome::kInjected);
}

// What is loaded counts against both the containers' limits and the volume's.
TEST(Injection, TheLoaderKnowsTheSmallerOfThePodsLimitsOfStorage) {
  const GoldenCase golden = load_golden_case("own-directory-in-own-emptydir");
  const auto known = [&](const json& pod) {
    return config_of(*golden.run(pod).pod).ephemeral_limit_bytes;
  };
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  EXPECT_EQ(known(golden.pod), 2 * kGibibyte);
  json pod = golden.pod;
  json& limit = pod["spec"]["containers"][0]["resources"]["limits"]["ephemeral-storage"];
  limit = "1Gi";
  EXPECT_EQ(known(pod), kGibibyte);
  limit = "4Gi";
  EXPECT_EQ(known(pod), 2 * kGibibyte);
}

TEST(Injection, GpusOfAllChosenContainersCount) {
  const GoldenCase golden = load_golden_case("several-containers-two-with-gpus");
  const api::KeyBasis basis = config_of(*golden.run(golden.pod).pod).key_basis;
  EXPECT_EQ(basis.gpu_count, 3);
  EXPECT_EQ(basis.gpu_resource, "nvidia.com/gpu");
}

TEST(Injection, ADollarInTheConfigurationIsSafeFromTheKubelet) {
  const GoldenCase golden = load_golden_case("subpath-and-version");
  const json pod = *golden.run(golden.pod).pod;
  const json& env = init_container(pod, "compilecache-load").at("env");
  EXPECT_THAT(named(env, api::kConfigVariable)->at("value").get<std::string>(),
              ::testing::Not(::testing::HasSubstr("$")));
  EXPECT_EQ(config_of(pod).key_basis.version, "$(MODEL)");
}

TEST(Injection, TheSaverLeavesTheKubeletNoReasonToKillIt) {
  GoldenCase golden = load_golden_case("deployment");
  golden.pod["spec"]["terminationGracePeriodSeconds"] = 5;
  EXPECT_EQ(config_of(*golden.run(golden.pod).pod).save.at_termination.count(), 4000);
  golden.pod["spec"]["terminationGracePeriodSeconds"] = 0;
  EXPECT_EQ(config_of(*golden.run(golden.pod).pod).save.at_termination.count(), 0);
}

TEST(Injection, PodsThatEndByThemselvesSaveFirstAfterAShorterSilence) {
  const auto first = [](const std::function<void(GoldenCase&)>& change) {
    GoldenCase golden = load_golden_case("deployment");
    golden.pod["spec"]["restartPolicy"] = "Never";
    change(golden);
    const api::AgentConfig config = config_of(*golden.run(golden.pod).pod);
    EXPECT_NE(config.save.quiet_period.count(), config.first_quiet_period.count());
    return config.first_quiet_period.count();
  };
  const auto restarts = [](const char* policy) {
    return [=](GoldenCase& golden) { golden.pod["spec"]["restartPolicy"] = policy; };
  };
  const auto annotated = [](const char* name, const char* value) {
    return [=](GoldenCase& golden) { golden.pod["metadata"]["annotations"][name] = value; };
  };
  const auto spec = [](const std::function<void(api::CompileCacheSpec&)>& change) {
    return [=](GoldenCase& golden) {
      api::CompileCache cache = *golden.cache;
      change(cache.spec);
      golden.cache = cache;
    };
  };
  EXPECT_EQ(first(restarts("Never")), 3000);
  EXPECT_EQ(first(restarts("OnFailure")), 3000);
  EXPECT_EQ(first(restarts("Always")), 0);
  EXPECT_EQ(first([](GoldenCase& golden) { golden.pod["spec"].erase("restartPolicy"); }), 0);
  EXPECT_EQ(first([](GoldenCase& golden) {
              golden.settings.first_quiet_period = std::chrono::seconds(7);
            }),
            7000);
  EXPECT_EQ(first(annotated(api::kQuietPeriodAnnotation, "1m")), 0) << "the pod's own word counts";
  EXPECT_EQ(first(spec([](auto& s) { s.save.quiet_period = std::chrono::seconds(2); })), 0);
  EXPECT_EQ(first(spec([](auto& s) { s.save.policy = api::SavePolicy::kOnce; })), 0)
      << "that would be a part";
  EXPECT_EQ(first(annotated(api::kModeAnnotation, "Refresh")), 0) << "a part would replace all";
}

TEST(Injection, JsonOfAnOddShapeIsSkippedAndSaid) {
  const GoldenCase golden = load_golden_case("deployment");
  for (const char* text :
       {R"({"metadata": {"annotations": {"compilecache.dev/cache": "transformer"}}})",
        R"({"metadata": {"annotations": {"compilecache.dev/cache": "transformer"}},
                               "spec": {"containers": [1, "x", null]}})",
        R"({"metadata": {"annotations": {"compilecache.dev/cache": "transformer"},
                               "labels": [1]}, "spec": {"containers": [{"name": "a"}]}})",
        R"({"metadata": {"annotations": {"compilecache.dev/cache": "transformer"}},
                               "spec": {"containers": [{"name": "a", "env": "x"}], "volumes": 7}})",
        "null", "[]", "7"}) {
    const Injected result = golden.run(json::parse(text));
    EXPECT_EQ(result.report.outcome, InjectionOutcome::kSkipped) << text;
    EXPECT_EQ(result.pod, std::nullopt) << text;
    EXPECT_FALSE(result.report.message.empty());
  }
}

TEST(PathSafety, PathsAreComparedByComponents) {
  EXPECT_TRUE(is_within("/a/b", "/a"));
  EXPECT_TRUE(is_within("/a", "/a"));
  EXPECT_FALSE(is_within("/ab", "/a"));
  EXPECT_EQ(normalized_path("//a/./b/"), "/a/b");
  EXPECT_EQ(normalized_path("/a/../b"), "");
  EXPECT_EQ(normalized_path("a"), "");
}

TEST(PathSafety, AFolderOfItsOwnIsSafe) {
  for (const char* path :
       {"/data/inductor", "/workspace/cache/torch", "/home/jane/inductor",
        "/root/.cache/torchinductor", "/tmp/torchinductor", "/var/cache/inductor"}) {
    EXPECT_FALSE(is_unsafe_mount_point(path)) << path;
  }
}

}  // namespace
}  // namespace compilecache::webhook
