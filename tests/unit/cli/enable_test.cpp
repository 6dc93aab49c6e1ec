// `kubectl compilecache enable`: the plan, and what reaches the API server.

#include <gmock/gmock.h>

#include <sstream>

#include "api/names.hpp"
#include "cli/cluster/webhook_scope.hpp"
#include "cli/enable/detect_frameworks.hpp"
#include "cli/enable/enable_command.hpp"
#include "cli/enable/enable_plan.hpp"
#include "cli/enable/roll_out.hpp"
#include "cli/text/json_at.hpp"
#include "cli/text/shipped_settings.hpp"
#include "operator/settings/injection_settings.hpp"
#include "operator/settings/settings.hpp"
#include "tests/support/fake_apiserver.hpp"
#include "tests/unit/cli/kubeconfig_file.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::fake_status;
using testing::FakeApiServer;
using testing::FakeConnection;
using testing::FakeRequest;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kCachesOfEnable[] = "/apis/compilecache.dev/v1alpha1/compilecaches";
constexpr char kDeploymentsOfEnable[] = "/apis/apps/v1/deployments";

json workload_of(const std::string& kind, const std::string& image = "app:1") {
  json object = {{"apiVersion", "apps/v1"},
                 {"kind", kind},
                 {"metadata", {{"name", "web"}, {"namespace", "ml"}}},
                 {"spec", {{"replicas", 3}}}};
  const json pods = {{"metadata", {{"labels", {{"app", "web"}}}}},
                     {"spec", {{"containers", {{{"name", "app"}, {"image", image}}}}}}};
  if (kind == "Job" || kind == "CronJob") object["apiVersion"] = "batch/v1";
  object[json::json_pointer(kind == "CronJob" ? "/spec/jobTemplate/spec/template"
                                              : "/spec/template")] = pods;
  return object;
}

json cache_named(const std::string& name, const json& frameworks = {"torch", "triton"}) {
  return {{"apiVersion", api::kApiVersion},
          {"kind", "CompileCache"},
          {"metadata", {{"name", name}, {"namespace", "ml"}}},
          {"spec", {{"storage", json::object()}, {"frameworks", frameworks}}}};
}

EnableInput input_of(const json& object) {
  const auto settings = controller::parse_settings(shipped_settings(), "the settings");
  return {.object = object,
          .workload = **workload_template(object, "ml"),
          .registry = true,
          .settings = controller::injection_settings(*settings, "compilecache-system", "cc:1")};
}

std::string why_not(const EnableInput& input) {
  const auto plan = plan_enable(input);
  return plan ? "" : plan.error().message;
}

std::vector<std::string> detected_in(const json& object) {
  const auto settings = controller::parse_settings(shipped_settings(), "the settings");
  return detect_frameworks((*workload_template(object, "ml"))->pod_template, settings->traps)
      .frameworks;
}

TEST(DetectFrameworks, ByImageCommandAndVariables) {
  EXPECT_THAT(detected_in(workload_of("Deployment", "vllm/vllm-openai:v0.32.0")),
              ElementsAre("vllm", "torch", "triton"));
  EXPECT_THAT(detected_in(workload_of("Deployment", "lmsysorg/sglang:v0.5.23")),
              ElementsAre("sglang", "torch", "triton"));
  EXPECT_THAT(detected_in(workload_of("Deployment", "python:3.13")),
              ElementsAre("torch", "triton"));
  json by_command = workload_of("Deployment", "mine:1");
  json& container = by_command["spec"]["template"]["spec"]["containers"][0];
  container["args"] = {"python -m vllm.entrypoints.openai.api_server"};
  EXPECT_THAT(detected_in(by_command), ElementsAre("vllm", "torch", "triton"));
  container["args"] = {"train.py"};
  container["env"] = {{{"name", "JAX_PLATFORMS"}, {"value", "cuda"}}};
  EXPECT_THAT(detected_in(by_command), ElementsAre("jax"));
}

TEST(EnablePlan, IsACompileCacheAndAnAnnotation) {
  const auto plan = plan_enable(input_of(workload_of("Deployment", "vllm/vllm-openai:v0.32.0")));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(yaml_of(*plan), R"(# CompileCache, to be created
apiVersion: compilecache.dev/v1alpha1
kind: CompileCache
metadata:
  name: web
  namespace: ml
spec:
  frameworks:
    - vllm
    - torch
    - triton
  storage: {}
---
# Patch of Deployment ml/web
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: ml
spec:
  template:
    metadata:
      annotations:
        compilecache.dev/cache: web
)");
  EXPECT_THAT(plan->consequence, HasSubstr("A roll-out replaces its 3 pods."));
  EXPECT_THAT(plan->notes, Contains(HasSubstr("container app runs vllm")));
  EXPECT_EQ(plan->patch[0]["op"], "test");
}

TEST(EnablePlan, AddsWhatIsMissingOnTheWayToTheAnnotation) {
  for (const char* kind : {"Deployment", "CronJob"}) {
    for (const json& metadata :
         {json(), json{{"labels", {{"app", "web"}}}}, json{{"annotations", {{"a", "b"}}}}}) {
      json object = workload_of(kind);
      const auto path = (*workload_template(object, "ml"))->template_path;
      object[json::json_pointer(path)]["metadata"] = metadata;
      if (metadata.is_null()) object[json::json_pointer(path)].erase("metadata");
      const auto plan = plan_enable(input_of(object));
      ASSERT_TRUE(plan) << plan.error().message;
      const json patched = object.patch(plan->patch);
      EXPECT_EQ(
          patched.at(json::json_pointer(path + "/metadata/annotations/compilecache.dev~1cache")),
          "web");
      json merged = object;
      merged.merge_patch(plan->merge);
      EXPECT_EQ(merged, patched);
    }
  }
}

TEST(EnablePlan, TheStoreIsTheOneThatIsThere) {
  EnableInput input = input_of(workload_of("Deployment"));
  input.registry = false;
  EXPECT_THAT(why_not(input), HasSubstr("no registry is installed"));
  EXPECT_THAT(why_not(input), HasSubstr("--storage claim=NAME"));
  input.registry.reset();
  EXPECT_THAT(why_not(input), HasSubstr("--storage claim=NAME"));
  input.storage = "registry";
  EXPECT_EQ(why_not(input), "");
  input.storage = "claim=caches";
  input.claim = {{"spec", {{"accessModes", {"ReadWriteMany"}}}}};
  const auto plan = plan_enable(input);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->cache["spec"]["storage"], json({{"claimName", "caches"}}));
  input.claim = {{"spec", {{"accessModes", {"ReadWriteOnce"}}}}};
  EXPECT_THAT(why_not(input), HasSubstr("claim caches is not ReadWriteMany"));
  EXPECT_FALSE(claim_of_storage("claim="));
  EXPECT_FALSE(claim_of_storage("nfs"));
}

TEST(EnablePlan, UsesACompileCacheThatThereIs) {
  EnableInput input = input_of(workload_of("Deployment", "lmsysorg/sglang:v0.5.23"));
  input.cache = "shared";
  input.existing = cache_named("shared");
  const auto plan = plan_enable(input);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->cache.is_null());
  EXPECT_EQ(at(plan->merge, "/spec/template/metadata/annotations"),
            json({{"compilecache.dev/cache", "shared"},
                  {"compilecache.dev/frameworks", "sglang,torch,triton"}}));
  // The operator may know frameworks that this release's settings lack.
  input.existing = cache_named("shared", {"ours"});
  input.workload.pod_template["metadata"]["annotations"] = {{api::kFrameworksAnnotation, "ours"}};
  input.object["spec"]["template"] = input.workload.pod_template;
  const auto unknown = plan_enable(input);
  ASSERT_TRUE(unknown) << unknown.error().message;
  EXPECT_THAT(unknown->notes, Contains(HasSubstr("by this release's settings")));
  input.storage = "registry";
  EXPECT_THAT(why_not(input), HasSubstr("leave out --storage"));
}

TEST(EnablePlan, WhatIsEnabledIsLeftAlone) {
  json object = workload_of("Deployment");
  object["spec"]["template"]["metadata"]["annotations"][api::kCacheAnnotation] = "llama";
  EnableInput input = input_of(object);
  input.existing = cache_named("llama");
  const auto plan = plan_enable(input);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(plan->nothing_to_do());
  EXPECT_EQ(yaml_of(*plan), "");
  // The annotation alone gets its CompileCache.
  input.existing = nullptr;
  const auto missing = plan_enable(input);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->cache["metadata"]["name"], "llama");
  EXPECT_TRUE(missing->patch.is_null());
  input.cache = "other";
  EXPECT_THAT(why_not(input), HasSubstr("names CompileCache \"llama\" already"));
}

TEST(EnablePlan, SaysWhatItCannotDo) {
  EXPECT_THAT(why_not(input_of(workload_of("Job"))), HasSubstr("a Job's pod template cannot be"));
  json owned = workload_of("ReplicaSet");
  owned["metadata"]["ownerReferences"] = {
      {{"kind", "Deployment"}, {"name", "web"}, {"controller", true}}};
  EXPECT_THAT(why_not(input_of(owned)), HasSubstr("enable Deployment/web"));
  json disabled = workload_of("Deployment");
  disabled["spec"]["template"]["metadata"]["annotations"][api::kModeAnnotation] = "Disabled";
  EXPECT_THAT(why_not(input_of(disabled)), HasSubstr("remove it first"));
  json windows = workload_of("Deployment");
  windows["spec"]["template"]["spec"]["os"] = {{"name", "windows"}};
  EXPECT_THAT(why_not(input_of(windows)), HasSubstr("would not be injected: windows_pod"));
  json system = workload_of("Deployment");
  system["metadata"]["namespace"] = "kube-system";
  EXPECT_THAT(why_not(input_of(system)), HasSubstr("namespace_excluded"));
  EnableInput full = input_of(workload_of("Deployment"));
  full.object["spec"]["template"]["spec"]["containers"][0]["resources"] = {
      {"requests", {{"cpu", "1"}}}, {"limits", {{"cpu", "1"}}}};
  full.workload = **workload_template(full.object, "ml");
  full.bounds = {{{"apiVersion", "v1"},
                  {"kind", "ResourceQuota"},
                  {"metadata", {{"name", "q"}, {"namespace", "ml"}}},
                  {"spec", {{"hard", {{"limits.cpu", "2"}}}}},
                  {"status", {{"hard", {{"limits.cpu", "2"}}}, {"used", {{"limits.cpu", "1"}}}}}}};
  EXPECT_THAT(why_not(full), HasSubstr("no_room_in_quota"));
}

TEST(EnablePlan, KnowsWhereOtherKindsHaveTheAnnotation) {
  EXPECT_THAT(why_no_workload("pod/web-1"), HasSubstr("enable its workload"));
  EXPECT_THAT(why_no_workload("raycluster/r"), HasSubstr("spec.headGroupSpec.template"));
  EXPECT_THAT(why_no_workload("inferenceservices/i"), HasSubstr("spec.predictor.annotations"));
  EXPECT_THAT(why_no_workload("service.serving.knative.dev/s"), HasSubstr("spec.template"));
  EXPECT_EQ(why_no_workload("service/s"), "");
}

TEST(RollOut, SaysWhatBecomesOfThePods) {
  const auto said = [](const json& object) {
    return roll_out_of(object, **workload_template(object, "ml"));
  };
  json object = workload_of("Deployment");
  object["spec"]["strategy"]["type"] = "Recreate";
  EXPECT_THAT(said(object), HasSubstr("All its pods end before"));
  object["spec"]["paused"] = true;
  EXPECT_THAT(said(object), HasSubstr("when it is resumed"));
  object["spec"]["replicas"] = 0;
  EXPECT_THAT(said(object), HasSubstr("no pods now"));
  json set = workload_of("StatefulSet");
  set["spec"]["updateStrategy"]["type"] = "OnDelete";
  EXPECT_THAT(said(set), HasSubstr("until you delete them"));
  EXPECT_THAT(said(workload_of("CronJob")), HasSubstr("Its next Job"));
  EXPECT_EQ(manager_of({{"metadata", {{"labels", {{"app.kubernetes.io/managed-by", "Helm"}}}}}}),
            "Helm");
  EXPECT_EQ(
      manager_of({{"metadata", {{"annotations", {{"argocd.argoproj.io/tracking-id", "x"}}}}}}),
      "Argo CD");
}

json webhook_configuration(const json& ns_selector) {
  return {{"metadata", {{"name", "compilecache"}}},
          {"webhooks", {{{"name", "pods.compilecache.dev"}, {"namespaceSelector", ns_selector}}}}};
}

TEST(WebhookScope, IsThatOfItsSelectors) {
  EXPECT_TRUE(webhook_among(json::array({{{"webhooks", {{{"name", "other"}}}}}})).is_null());
  const json webhook =
      webhook_among(json::array({webhook_configuration({{"matchLabels", {{"team", "a"}}}})}));
  EXPECT_EQ(why_not_sent(webhook, {{"team", "a"}}, {}), "");
  EXPECT_EQ(why_not_sent(webhook, {{"team", "b"}}, {}),
            "the webhook's configuration (compilecache) leaves out the namespace by its "
            "namespaceSelector");
  json by_pod = webhook;
  by_pod["objectSelector"] = {{"matchLabels", {{"app", "web"}}}};
  EXPECT_THAT(why_not_sent(by_pod, {{"team", "a"}}, {{"app", "other"}}),
              HasSubstr("objectSelector"));
}

class Enable : public ::testing::Test {
 protected:
  Enable() {
    server_.put(kDeploymentsOfEnable, workload_of("Deployment"));
    server_.put(
        "/api/v1/services",
        {{"metadata", {{"name", "compilecache-registry"}, {"namespace", "compilecache-system"}}}});
    server_.put("/api/v1/namespaces",
                {{"metadata", {{"name", "ml"}, {"labels", {{"team", "a"}}}}}});
    server_.put("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
                webhook_configuration(json::object()));
  }
  int run(EnableOptions options) {
    options.cluster.kubeconfig = kubeconfig_.path();
    if (options.workload.empty()) options.workload = "deployment/web";
    out_.str("");
    errors_.str("");
    return run_enable(options, out_, errors_);
  }
  void refuse(const std::string& method, const std::string& path, int code) {
    server_.script([=](const FakeRequest& request, FakeConnection& connection) {
      if (request.method != method || request.path.find(path) == std::string::npos) return false;
      connection.reply(code, fake_status(code, "Refused", "because"));
      return true;
    });
  }
  json annotations() const {
    return at(server_.objects(kDeploymentsOfEnable).at("ml/web"),
              "/spec/template/metadata/annotations");
  }
  // The writes, and whether the API server was only to try them.
  std::vector<std::string> writes() const {
    std::vector<std::string> all;
    for (const FakeRequest& request : server_.requests()) {
      if (request.method == "GET") continue;
      all.push_back(request.method + (request.parameter("dryRun") == "All" ? " dry" : ""));
    }
    return all;
  }

  FakeApiServer server_;
  KubeconfigFile kubeconfig_{server_.url()};
  std::ostringstream out_, errors_;
};

TEST_F(Enable, WithoutYesNothingIsWritten) {
  EXPECT_EQ(run({}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("kind: CompileCache"));
  EXPECT_THAT(errors_.str(), HasSubstr("Nothing was changed. --yes applies it.\n"));
  EXPECT_THAT(writes(), ElementsAre("POST dry", "PATCH dry"));
}

TEST_F(Enable, WithYesBothAre) {
  EXPECT_EQ(run({.yes = true}), 0) << errors_.str();
  EXPECT_THAT(out_.str(), HasSubstr("CompileCache ml/web created\nDeployment ml/web patched\n"));
  EXPECT_EQ(server_.objects(kCachesOfEnable).at("ml/web")["spec"]["frameworks"],
            json({"torch", "triton"}));
  EXPECT_EQ(annotations()[api::kCacheAnnotation], "web");
  EXPECT_EQ(run({.yes = true}), 0);
  EXPECT_EQ(out_.str(), "Deployment ml/web is enabled already, with CompileCache web\n");
}

TEST_F(Enable, LeavesNothingBehindIfTheWorkloadCannotBePatched) {
  refuse("PATCH", "/deployments/web", 403);
  EXPECT_EQ(run({.yes = true}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("CompileCache web was deleted again"));
  EXPECT_THAT(server_.objects(kCachesOfEnable), IsEmpty());
  EXPECT_TRUE(annotations().is_null());
}

TEST_F(Enable, SaysThatTheWorkloadWasChangedMeanwhile) {
  server_.script([&](const FakeRequest& request, FakeConnection& connection) {
    if (request.method != "PATCH") return false;
    json other = workload_of("Deployment", "app:2");
    server_.put(kDeploymentsOfEnable, other);
    connection.reply(422, fake_status(422, "Invalid", "the test failed"));
    return true;
  });
  EXPECT_EQ(run({.yes = true}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("was changed meanwhile; run the command again"));
  EXPECT_THAT(server_.objects(kCachesOfEnable), IsEmpty());
}

TEST_F(Enable, SaysWhatIsNotThere) {
  EXPECT_EQ(run({.workload = "deployment/nobody"}), 1);
  EXPECT_EQ(errors_.str(), "Error: Deployment ml/nobody not found\n");
  EXPECT_EQ(run({.workload = "pod/web-1"}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("enable its workload"));
  EXPECT_EQ(run({.storage = "claim=none"}), 1);
  EXPECT_EQ(errors_.str(), "Error: PersistentVolumeClaim ml/none not found\n");
  EXPECT_EQ(run({.storage = "nfs"}), 2);
  refuse("GET", "/apis/compilecache.dev/v1alpha1", 404);
  refuse("GET", "/apis/compilecache.dev/v1alpha1", 404);
  EXPECT_EQ(run({}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("compile-cache is not installed in this cluster"));
}

TEST_F(Enable, ANamespaceThatTheWebhookLeavesOutIsRefused) {
  server_.put("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
              webhook_configuration({{"matchLabels", {{"team", "b"}}}}));
  EXPECT_EQ(run({.yes = true}), 1);
  EXPECT_THAT(errors_.str(), HasSubstr("leaves out the namespace"));
  EXPECT_THAT(server_.objects(kCachesOfEnable), IsEmpty());
}

// The settings of this release are taken only where there are no others to be seen.
TEST_F(Enable, SettingsThatCannotBeReadAreAnError) {
  refuse("GET", "/configmaps", 500);
  EXPECT_EQ(run({}), 1);
  EXPECT_EQ(out_.str(), "");
  EXPECT_THAT(errors_.str(), HasSubstr("because"));
}

TEST_F(Enable, WhatMayNotBeReadIsMentioned) {
  refuse("GET", "/configmaps", 403);
  refuse("GET", "/mutatingwebhookconfigurations", 403);
  refuse("GET", "/services/compilecache-registry", 403);
  refuse("GET", "/resourcequotas", 403);
  EXPECT_EQ(run({.storage = "registry"}), 0) << errors_.str();
  EXPECT_THAT(errors_.str(), HasSubstr("may not read it: the webhook's configuration"));
  EXPECT_THAT(errors_.str(), HasSubstr("may not read it: whether a registry is installed"));
  EXPECT_THAT(errors_.str(), HasSubstr("not checked: ResourceQuotas"));
}

}  // namespace
}  // namespace compilecache::cli
