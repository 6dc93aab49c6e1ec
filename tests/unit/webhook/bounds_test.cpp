#include "webhook/pod_bounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "tests/unit/webhook/fake_cluster.hpp"
#include "tests/unit/webhook/pods.hpp"

// Anyone may write a pod, and the same few threads answer everyone's pods. So the largest possible
// pod costs no more than its bytes, in time, in memory and in the answer. The cost
// is counted in allocations here, not in seconds; the program counts them all.

namespace {
std::atomic<size_t> allocations{0};
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }

namespace compilecache::webhook {
namespace {

using nlohmann::json;
using testing::FakeCluster;
using testing::GoldenCase;
using ::testing::HasSubstr;
using testing::Injected;
using testing::load_golden_case;
using ::testing::Not;

constexpr char kReview[] =
    R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"705ab4f5",)"
    R"("kind":{"group":"","version":"v1","kind":"Pod"},"operation":"CREATE","namespace":"ml",)"
    R"("object":)";

std::string review_of(const json& pod) { return kReview + pod.dump() + "}}"; }

class Bounds : public ::testing::Test {
 protected:
  AdmissionAnswer admitted(const json& pod) const {
    return admit(review_of(pod), FakeCluster(golden_));
  }
  json& annotations(json& pod) const { return pod["metadata"]["annotations"]; }
  json& env(json& pod) const { return pod["spec"]["containers"][0]["env"]; }

  // How often memory is asked for to inject the pod, as a tree already.
  size_t allocations_of(const json& pod) const {
    const JsonDocument tree = testing::tree_of(pod);
    const size_t before = allocations;
    const InjectionResult result = inject({.pod = tree,
                                           .ns = "ml",
                                           .cache = &*golden_.cache,
                                           .facts = golden_.facts,
                                           .settings = golden_.settings});
    const size_t after = allocations;
    EXPECT_FALSE(result.patch.empty()) << result.report.message;
    return after - before;
  }

  GoldenCase golden_ = load_golden_case("deployment");
};

json gpu_containers(size_t count) {
  json containers = json::array();
  for (size_t i = 0; i < count; ++i) {
    containers.push_back({{"name", "c" + std::to_string(i)},
                          {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}});
  }
  return containers;
}

TEST_F(Bounds, FortyThousandFrameworksAreNotEvenSplit) {
  json pod = golden_.pod;
  std::string names = "f0";
  for (int i = 1; i < 40'000; ++i) names += ",f" + std::to_string(i);
  for (const char* name : {api::kFrameworksAnnotation, api::kContainersAnnotation}) {
    pod = golden_.pod;
    annotations(pod)[name] = names;
    const AdmissionAnswer answer = admitted(pod);
    EXPECT_EQ(answer.report.reason, api::InjectionReason::kAnnotationInvalid);
    EXPECT_THAT(answer.report.message, HasSubstr("at most 64 names"));
    EXPECT_LT(answer.body.size(), 1024U);
  }
}

TEST_F(Bounds, TwentyFiveThousandGpuContainersGetAShortAnswer) {
  json pod = golden_.pod;
  pod["spec"]["containers"] = gpu_containers(25'000);
  const AdmissionAnswer answer = admitted(pod);
  EXPECT_EQ(answer.report.reason, api::InjectionReason::kPodTooLarge);
  EXPECT_LT(answer.body.size(), 1024U);
}

TEST_F(Bounds, APodOfTooManyGpuContainersIsLeftAloneUnlessItNamesThem) {
  json pod = golden_.pod;
  pod["spec"]["containers"] = gpu_containers(400);
  const Injected all = golden_.run(pod);
  EXPECT_EQ(all.report.reason, api::InjectionReason::kPodTooLarge);
  EXPECT_THAT(all.report.message, HasSubstr("400 containers"));
  EXPECT_EQ(all.pod, std::nullopt);
  annotations(pod)[api::kContainersAnnotation] = "c7,c399";
  EXPECT_EQ(golden_.run(pod).report.reason, api::InjectionReason::kInjected);
  pod["spec"]["containers"] = gpu_containers(1'000);
  EXPECT_EQ(golden_.run(pod).report.reason, api::InjectionReason::kPodTooLarge);
}

TEST_F(Bounds, ALongCommandForManyContainersDoesNotMakeThePodTooLarge) {
  json pod = golden_.pod;
  pod["spec"]["containers"] = gpu_containers(32);
  // It travels back twice, in the agents' configuration.
  pod["spec"]["containers"][0]["image"] = std::string(200'000, 'i');
  const Injected result = golden_.run(pod);
  EXPECT_EQ(result.report.reason, api::InjectionReason::kPodTooLarge);
  EXPECT_THAT(result.report.message, HasSubstr("would grow by"));
}

TEST_F(Bounds, AnnotationsThatWouldNotFitAnyMoreAreCounted) {
  json pod = golden_.pod;
  annotations(pod)["user"] = std::string((256U << 10) - 200, 'x');
  const Injected full = golden_.run(pod);
  EXPECT_EQ(full.report.reason, api::InjectionReason::kPodTooLarge);
  EXPECT_THAT(full.report.message, HasSubstr("annotations"));
  annotations(pod)["user"] = std::string(200U << 10, 'x');
  EXPECT_EQ(golden_.run(pod).report.reason, api::InjectionReason::kInjected);
}

TEST_F(Bounds, MisspeltAnnotationsAreToldOfUpToAFew) {
  json pod = golden_.pod;
  for (int i = 0; i < 5'000; ++i) annotations(pod)["compilecache.dev/x" + std::to_string(i)] = "";
  const AdmissionAnswer answer = admitted(pod);
  EXPECT_EQ(answer.report.reason, api::InjectionReason::kInjected);
  EXPECT_LE(answer.report.warnings.size(), 8U);
}

TEST_F(Bounds, AMessageIsAsLongAsPeopleRead) {
  json pod = golden_.pod;
  pod["spec"]["containers"] = gpu_containers(500);
  for (json& container : pod["spec"]["containers"]) {
    container["name"] = std::string(1'000, 'n') + container["name"].get<std::string>();
  }
  annotations(pod)[api::kContainersAnnotation] = "none";
  const AdmissionAnswer answer = admitted(pod);
  EXPECT_EQ(answer.report.reason, api::InjectionReason::kContainerNotFound);
  EXPECT_LE(answer.report.message.size(), 1'000U);
}

// An injected pod's status with `count` more variables of its first container.
json with_forged_status(const GoldenCase& golden, size_t count, const std::string& name,
                        const json& value) {
  json pod = *golden.run(golden.pod).pod;
  auto status = *api::parse_injection_status(
      pod["metadata"]["annotations"][api::kStatusAnnotation].get<std::string>());
  status.version = "0.1.0";
  json& container = pod["spec"]["containers"][0];
  for (size_t i = 0; i < count; ++i) {
    const std::string numbered = name + (value.is_null() ? std::to_string(i) : "");
    status.variables.push_back(container["name"].get<std::string>() + ":" + numbered);
    container["env"].push_back({{"name", numbered}, {"value", value.is_null() ? "x" : value}});
  }
  pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(status);
  return pod;
}

TEST_F(Bounds, AStatusOfManyVariablesTakesNoneOfThemOut) {
  for (const size_t count : {5'000, 20'000}) {
    const json pod = with_forged_status(golden_, count, "V", nullptr);
    const Injected result = golden_.run(pod);
    EXPECT_LT(result.patch.dump().size(), 64U << 10) << count;
    const json after = result.pod.value_or(pod);
    EXPECT_NE(testing::named(after["spec"]["containers"][0]["env"], "V4999"), nullptr);
  }
}

TEST_F(Bounds, MoreToTakeOutThanAnyInjectionPutsInIsLeftAlone) {
  const json pod =
      with_forged_status(golden_, 3'000, "TORCHINDUCTOR_CACHE_DIR", "/compilecache/cache/torch");
  const Injected result = golden_.run(pod);
  EXPECT_EQ(result.report.reason, api::InjectionReason::kPodTooLarge);
  EXPECT_EQ(result.pod, std::nullopt);
}

TEST_F(Bounds, ACacheDirectoryIsNoLongerThanAnyPath) {
  json pod = golden_.pod;
  std::string path;
  while (path.size() < 300'000) path += "/a";
  env(pod).push_back({{"name", "TORCHINDUCTOR_CACHE_DIR"}, {"value", path}});
  pod["spec"]["containers"][0]["command"] = {path + path + "/"};
  EXPECT_EQ(golden_.run(pod).report.reason, api::InjectionReason::kCacheDirUnsafe);
}

TEST_F(Bounds, ManyResourcesOfOneContainerAreLeftAlone) {
  json pod = golden_.pod;
  json& limits = pod["spec"]["initContainers"][0]["resources"]["limits"];
  for (int i = 0; i < 10'000; ++i) limits["example.com/r" + std::to_string(i)] = "1";
  EXPECT_EQ(golden_.run(pod).report.reason, api::InjectionReason::kPodTooLarge);
}

// Variables that may each name any of the others: the downward API's, and their expansions.
TEST_F(Bounds, VariablesThatNameEachOtherCostNoMoreThanTheirNumber) {
  golden_ = load_golden_case("trap-vllm-value-of-the-pod");
  const auto pod_of = [&](size_t count) {
    json pod = golden_.pod;
    for (size_t i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      env(pod).push_back({{"name", "FIELD_OF_THE_DOWNWARD_API_" + number},
                          {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}});
      env(pod).push_back({{"name", "VLLM_" + number}, {"value", "$(ELSE_" + number + ")"}});
    }
    return pod;
  };
  const size_t few = allocations_of(pod_of(200));
  EXPECT_LT(allocations_of(pod_of(800)), 5 * few);
}

TEST_F(Bounds, SidecarsOfManyResourcesCostNoMoreThanTheirNumber) {
  golden_ = load_golden_case("quota-wants-limits");
  const auto pod_of = [&](size_t count) {
    json pod = golden_.pod;
    for (size_t i = 0; i < count; ++i) {
      json container = {{"name", "side" + std::to_string(i)}, {"restartPolicy", "Always"}};
      for (size_t j = 0; j < 8; ++j) {
        container["resources"]["limits"]["rdma/" + std::to_string(i) + "-" + std::to_string(j)] =
            "1";
      }
      pod["spec"]["initContainers"].push_back(container);
    }
    return pod;
  };
  const size_t few = allocations_of(pod_of(50));
  EXPECT_LT(allocations_of(pod_of(200)), 5 * few);
}

// However far a review has come when its time is up.
TEST_F(Bounds, AReviewThatWouldTakeTooLongLeavesThePodAloneAndSaysSo) {
  for (int steps = 0;; ++steps) {
    int asked = 0;
    const AdmissionAnswer answer =
        admit(review_of(golden_.pod), FakeCluster(golden_), [&] { return asked++ >= steps; });
    const json response = json::parse(answer.body).at("response");
    EXPECT_EQ(response.at("allowed"), true);
    EXPECT_EQ(response.at("uid"), "705ab4f5");
    if (asked <= steps) {
      EXPECT_GE(steps, 3);
      EXPECT_TRUE(response.contains("patch"));
      return;
    }
    EXPECT_FALSE(response.contains("patch")) << steps;
    EXPECT_EQ(answer.report.reason, api::InjectionReason::kTookTooLong);
    EXPECT_THAT(response.at("warnings").at(0).get<std::string>(), HasSubstr("took_too_long"));
  }
}

TEST_F(Bounds, AnUnreadReviewIsAnsweredWithItsUidAndWhateverElseWithout) {
  const auto now = [] { return true; };
  for (const auto& [body, uid] : std::vector<std::pair<std::string, std::string>>{
           {R"({"request":{"uid":"a","object":[[[)", "a"},
           {R"({"uid":"b","request":{"object":{"uid":"c"},"uid":"d"}})", "d"},
           {R"({"request":{"uid":7}})", ""},
           {std::string(3'000'000, '['), ""},
           {"", ""}}) {
    const AdmissionAnswer answer = admit(body, FakeCluster(golden_), now);
    EXPECT_EQ(json::parse(answer.body).at("response").at("uid"), uid) << body.substr(0, 80);
  }
}

}  // namespace
}  // namespace compilecache::webhook
