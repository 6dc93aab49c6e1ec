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
using testing::without_injection;

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

TEST(Injection, AnEmptyObjectOfPodResourcesChangesNothing) {
  for (const char* name : {"guaranteed", "quota-wants-limits"}) {
    const GoldenCase golden = load_golden_case(name);
    json pod = golden.pod;
    pod["spec"]["resources"] = json::object();
    json expected = *golden.run(golden.pod).pod;
    expected["spec"]["resources"] = json::object();
    EXPECT_EQ(golden.run(pod).pod, expected) << name;
  }
}

// A quota of storage, too, says nothing of containers.
TEST(Injection, AnAmountBeyondAllDisksDoesNotHideTheQuota) {
  GoldenCase golden = load_golden_case("quota-wants-limits");
  golden.facts.quotas = {*parse_resource_quota(json::parse(R"({"metadata": {"name": "team"},
      "spec": {"hard": {"limits.cpu": "100", "limits.memory": "1Ti", "requests.storage": "10Pi"}}})"))};
  const json pod = *golden.run(golden.pod).pod;
  for (const char* name : {"compilecache-load", "compilecache-save"}) {
    const json& limits = init_container(pod, name).at("resources").at("limits");
    EXPECT_TRUE(limits.contains("cpu") && limits.contains("memory")) << name << limits;
  }
}

// Templates of Windows' own agents: neither spec.os nor a node selector.
TEST(Injection, PodsOfWindowsAreKnownByAnythingThatOnlyTheyHave) {
  const GoldenCase golden = load_golden_case("host-network");
  const auto reason_of = [&](const json& merged) {
    json pod = golden.pod;
    pod["spec"].merge_patch(merged);
    return golden.run(pod).report.reason;
  };
  ASSERT_EQ(reason_of(json::object()), api::InjectionReason::kInjected);
  const json options = {
      {"securityContext", {{"windowsOptions", {{"hostProcess", true}, {"runAsUserName", "x"}}}}}};
  EXPECT_EQ(reason_of(options), api::InjectionReason::kWindowsPod);
  json containers = golden.pod["spec"]["containers"];
  containers[0].merge_patch(options);
  EXPECT_EQ(reason_of({{"containers", containers}}), api::InjectionReason::kWindowsPod);
  const auto affinity = [](const json& systems) {
    json term;
    term["matchExpressions"] = {
        {{"key", "kubernetes.io/os"}, {"operator", "In"}, {"values", systems}}};
    json made;
    made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        ["nodeSelectorTerms"] = json::array({term});
    return made;
  };
  EXPECT_EQ(reason_of(affinity({"windows"})), api::InjectionReason::kWindowsPod);
  EXPECT_EQ(reason_of(affinity({"windows", "linux"})), api::InjectionReason::kInjected);
  EXPECT_EQ(reason_of({{"securityContext", {{"windowsOptions", json::object()}}}}),
            api::InjectionReason::kInjected);
}

// As the kubelet expands references, in one pass.
TEST(Injection, OnlyARealReferenceToAValueOfThePodIsATrap) {
  const GoldenCase golden = load_golden_case("trap-vllm-value-of-the-pod");
  const auto warns = [&](const std::string& value) {
    json pod = golden.pod;
    pod["spec"]["containers"][0]["env"] = {
        {{"name", "POD_IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}},
        {{"name", "VLLM_LOOPBACK_IP"}, {"value", value}}};
    return !golden.run(pod).report.warnings.empty();
  };
  for (const char* made :
       {"$(POD_IP)", "a$(ELSE)b$(POD_IP)", "$$$(POD_IP)", "$x$(POD_IP)", "$(A$(B)$(POD_IP)"}) {
    EXPECT_TRUE(warns(made)) << made;
  }
  for (const char* literal : {"$$(POD_IP)", "$($(POD_IP)", "$(POD_IP", "POD_IP", "$"}) {
    EXPECT_FALSE(warns(literal)) << literal;
  }
  // Seconds, where each "$(" looks for the one ")" again.
  std::string nested;
  while (nested.size() < 900'000) nested += "$(";
  EXPECT_FALSE(warns(nested + ")"));
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

TEST(Injection, TwoFrameworksWhoseNamesAreNoLabelsHaveVolumesOfTheirOwn) {
  GoldenCase golden = load_golden_case("deployment");
  json& container = golden.pod["spec"]["containers"][0];
  for (const char* name : {"my.fw", "my-fw", "my_fw"}) {
    const std::string variable = "DIRECTORY_" + std::to_string(golden.settings.frameworks.size());
    golden.settings.frameworks[name].name = name;
    golden.settings.frameworks[name].directory_variable = variable;
    golden.cache->spec.frameworks.emplace_back(name);
    container["env"].push_back({{"name", variable}, {"value", "/scratch/" + variable}});
  }
  const Injected result = golden.run(golden.pod);
  ASSERT_TRUE(result.pod) << result.report.message;
  std::vector<std::string> names;
  for (const json& volume : result.pod->at("spec").at("volumes")) {
    if (const std::string name = volume.at("name"); name.starts_with("compilecache-cache-my"))
      names.push_back(name);
  }
  EXPECT_THAT(names, ElementsAre("compilecache-cache-my-fw", "compilecache-cache-my-fw-2",
                                 "compilecache-cache-my-fw-3"));
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

// Set by another webhook before us, or claimed to be from us.
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

TEST(Injection, TheAgentsAreToldWhereAnyReplicaAnswersLoadsIfThereIsSuchAService) {
  GoldenCase golden = load_golden_case("overrides");
  EXPECT_EQ(config_of(*golden.run(golden.pod).pod).load_address, "");
  golden.settings.load_address = "10.96.0.18";
  EXPECT_EQ(config_of(*golden.run(golden.pod).pod).load_address, "10.96.0.18");
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

// Loaded bytes count against both the containers' limits and the volume's.
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

// By it PyTorch compiles for another CPU than the node's.
TEST(Injection, TheAgentKnowsForWhichCpuTheApplicationCompiles) {
  using Texts = std::vector<std::string>;
  GoldenCase golden = load_golden_case("several-containers-two-with-gpus");
  for (auto& [name, framework] : golden.settings.frameworks) {
    framework.cpu_variables = {"ATEN_CPU_CAPABILITY"};
  }
  const auto known = [&](const json& variables) {
    json pod = golden.pod;
    for (json& container : pod["spec"]["containers"]) {
      for (const json& variable : variables) container["env"].push_back(variable);
    }
    return config_of(*golden.run(pod).pod).cpu_variables;
  };
  EXPECT_EQ(known(json::array()), Texts{});
  EXPECT_EQ(known({{{"name", "ATEN_CPU_CAPABILITY"}, {"value", "avx2"}}}),
            Texts{"ATEN_CPU_CAPABILITY=avx2"});
  const json from_elsewhere{{"configMapKeyRef", {{"name", "settings"}, {"key", "cpu"}}}};
  EXPECT_EQ(known({{{"name", "ATEN_CPU_CAPABILITY"}, {"valueFrom", from_elsewhere}}}),
            Texts{"ATEN_CPU_CAPABILITY=?"});
  EXPECT_EQ(known({{{"name", "ATEN_CPU_CAPABILITY"}, {"value", "$(CPU)"}}}),
            Texts{"ATEN_CPU_CAPABILITY=?"});
}

TEST(Injection, GpusOfAllChosenContainersCount) {
  const GoldenCase golden = load_golden_case("several-containers-two-with-gpus");
  const api::KeyBasis basis = config_of(*golden.run(golden.pod).pod).key_basis;
  EXPECT_EQ(basis.gpu_count, 3);
  EXPECT_EQ(basis.gpu_resource, "nvidia.com/gpu");
}

TEST(Injection, GpusOfAnInitContainerAreThereBeforehand) {
  const GoldenCase golden = load_golden_case("containers-annotation-init-container");
  const auto count_of = [&](int of_init, int of_app, const char* restart) {
    json pod = golden.pod;
    const auto gpus = [](int count) {
      return json{{"limits", {{"nvidia.com/gpu", std::to_string(count)}}}};
    };
    pod["spec"]["initContainers"][0]["resources"] = gpus(of_init);
    pod["spec"]["containers"][0]["resources"] = gpus(of_app);
    if (restart != nullptr) pod["spec"]["initContainers"][0]["restartPolicy"] = restart;
    return config_of(*golden.run(pod).pod).key_basis.gpu_count;
  };
  EXPECT_EQ(count_of(1, 2, nullptr), 2);
  EXPECT_EQ(count_of(4, 2, nullptr), 4);
  EXPECT_EQ(count_of(1, 2, "Always"), 3);
}

// Changes of an init container are found again, and taken out.
TEST(Injection, AnInitContainerGetsTheCacheAndGivesItBack) {
  GoldenCase golden = load_golden_case("containers-annotation-init-container");
  const json pod = *golden.run(golden.pod).pod;
  const json& download = init_container(pod, "download");
  EXPECT_NE(named(download.at("env"), "TORCHINDUCTOR_CACHE_DIR"), nullptr);
  EXPECT_NE(named(download.at("volumeMounts"), "compilecache-cache"), nullptr);
  EXPECT_EQ(pod.at("spec").at("initContainers").at(0).at("name"), "compilecache-load");
  EXPECT_EQ(without_injection(pod, golden.settings), golden.pod);
  golden.settings.version = "2.0.0";
  const json renewed = *golden.run(pod).pod;
  EXPECT_EQ(init_container(renewed, "download"), download);
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

// Their agents leave out what all ranks must have or none.
TEST(Injection, AgentsOfAGroupsPodsAreToldSo) {
  GoldenCase golden = load_golden_case("deployment");
  EXPECT_FALSE(config_of(*golden.run(golden.pod).pod).in_group);
  for (const char* label :
       {"leaderworkerset.sigs.k8s.io/name", "jobset.sigs.k8s.io/jobset-name", "ray.io/cluster",
        "volcano.sh/job-name", "scheduling.x-k8s.io/pod-group", "kueue.x-k8s.io/pod-group-name"}) {
    golden = load_golden_case("deployment");
    golden.pod["metadata"]["labels"][label] = "g";
    EXPECT_TRUE(config_of(*golden.run(golden.pod).pod).in_group) << label;
  }
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
