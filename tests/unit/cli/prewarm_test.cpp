#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/names.hpp"
#include "cli/cluster/label_match.hpp"
#include "cli/cluster/workload_template.hpp"
#include "cli/command_line.hpp"
#include "cli/prewarm/gpu_kinds.hpp"
#include "cli/prewarm/prewarm_pod.hpp"
#include "cli/prewarm/prewarm_watch.hpp"
#include "cli/text/shipped_settings.hpp"
#include "operator/settings/settings.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = PrewarmNews::State;

// Workloads.

json deployment() {
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", {{"name", "web"}, {"namespace", "ml"}}},
          {"spec",
           {{"selector", {{"matchLabels", {{"app", "web"}}}}},
            {"template",
             {{"metadata",
               {{"labels", {{"app", "web"}, {"tier", "gpu"}, {"team", "a"}}},
                {"annotations", {{api::kCacheAnnotation, "llama"}}}}},
              {"spec", {{"containers", json::array({{{"name", "app"}, {"image", "app:1"}}})}}}}}}}};
}

WorkloadTemplate web() { return **workload_template(deployment(), "default"); }

TEST(WorkloadNamed, IsWrittenAsForKubectl) {
  for (const char* text : {"deployment/web", "deploy/web", "deployments.apps/web"}) {
    const auto named = workload_named(text);
    ASSERT_TRUE(named) << text;
    EXPECT_EQ(named->resource.path("ml", named->name),
              "/apis/apps/v1/namespaces/ml/deployments/web");
  }
  EXPECT_EQ(workload_named("rollout/web")->resource.group, "argoproj.io");
  for (const char* text : {"web", "service/web", "deployment/", "deployment/a/b", ""}) {
    const auto named = workload_named(text);
    ASSERT_FALSE(named) << text;
    EXPECT_THAT(named.error().message, HasSubstr("deployment/web"));
  }
}

TEST(WorkloadTemplate, IsWhereItsKindHasIt) {
  EXPECT_EQ(web().workload(), "Deployment/web");
  json cron = deployment();
  cron["apiVersion"] = "batch/v1";
  cron["kind"] = "CronJob";
  cron["spec"] = {{"jobTemplate", {{"spec", {{"template", web().pod_template}}}}}};
  EXPECT_EQ((*workload_template(cron, ""))->pod_template, web().pod_template);
  cron["spec"].erase("jobTemplate");
  EXPECT_THAT(workload_template(cron, "").error().message, HasSubstr("no pod template"));
  EXPECT_FALSE(workload_template({{"kind", "Service"}, {"apiVersion", "v1"}}, "")->has_value());
}

// The pod.

PodSelector service(const std::string& name, const json& labels) {
  return selector_of("Service", {{"metadata", {{"name", name}}}, {"spec", {{"selector", labels}}}});
}

TEST(PrewarmPod, ServesNobodyAndBelongsToNobody) {
  json pod = prewarm_pod(web(), "web-prewarm-1", seconds(60));
  const Detached detached =
      detach(pod, {service("web", {{"app", "web"}}), {"Deployment web", web().selector}});
  EXPECT_THAT(detached.removed, ElementsAre("app"));
  EXPECT_THAT(detached.still, IsEmpty());
  EXPECT_EQ(pod["metadata"]["labels"],
            json({{"team", "a"}, {"tier", "gpu"}, {"compilecache.dev/prewarm", "true"}}));
  EXPECT_FALSE(pod["metadata"].contains("ownerReferences"));
  EXPECT_EQ(pod["spec"]["readinessGates"],
            json::array({{{"conditionType", "compilecache.dev/prewarm"}}}));
  EXPECT_EQ(pod["spec"]["activeDeadlineSeconds"], 60);
  EXPECT_EQ(pod["metadata"]["annotations"]["compilecache.dev/workload"], "Deployment/web");
  EXPECT_EQ(pod["metadata"]["annotations"][api::kCacheAnnotation], "llama");
}

// A selector that asks for the lack of a label begins to match when the label is removed.
TEST(PrewarmPod, IsFreeOfSelectorsThatAskForALackToo) {
  const json lack{
      {"matchLabels", {{"tier", "gpu"}}},
      {"matchExpressions", json::array({{{"key", "app"}, {"operator", "DoesNotExist"}}})}};
  json pod = prewarm_pod(web(), "p", seconds(60));
  EXPECT_THAT(detach(pod, {service("web", {{"app", "web"}}), {"ReplicaSet x", lack}}).removed,
              ElementsAre("app", "tier"));
  pod = prewarm_pod(web(), "p", seconds(60));
  const json all = json::object();
  EXPECT_THAT(detach(pod, {{"StatefulSet odd", all}}).still, ElementsAre("StatefulSet odd"));
  EXPECT_THAT(detach(pod, {selector_of("PodDisruptionBudget", {{"metadata", {{"name", "all"}}},
                                                               {"spec", {{"selector", all}}}})})
                  .still,
              IsEmpty());
}

TEST(PrewarmPod, ASetsClaimsGoWithIt) {
  WorkloadTemplate set = web();
  set.claim_templates = json::array(
      {{{"metadata", {{"name", "data"}}}, {"spec", {{"accessModes", {"ReadWriteOnce"}}}}}});
  const json pod = prewarm_pod(set, "p", seconds(60));
  ASSERT_EQ(pod["spec"]["volumes"].size(), 1u);
  EXPECT_EQ(pod["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"],
            set.claim_templates[0]["spec"]);
}

TEST(PrewarmPod, TakesTheNewImage) {
  json pod = prewarm_pod(web(), "p", seconds(60));
  ASSERT_TRUE(set_image(pod, "app", "app:2"));
  EXPECT_EQ(pod["spec"]["containers"][0]["image"], "app:2");
  EXPECT_THAT(set_image(pod, "web", "app:2").error().message, HasSubstr("no container \"web\""));
  EXPECT_EQ(prewarm_name(std::string(80, 'w'), "0123456789abcdef").size(), 63u);
  EXPECT_EQ(prewarm_name("web", "0123456789abcdef"), "web-prewarm-01234567");
}

// The kinds of GPU.

json node(const std::string& name, const std::string& product, json taints = json::array()) {
  json made{{"metadata", {{"name", name}, {"labels", {{"kubernetes.io/arch", "amd64"}}}}},
            {"spec", {{"taints", std::move(taints)}}},
            {"status", {{"allocatable", {{"cpu", "8"}}}}}};
  if (!product.empty()) {
    made["metadata"]["labels"]["nvidia.com/gpu.product"] = product;
    made["status"]["allocatable"]["nvidia.com/gpu"] = "8";
  }
  return made;
}

const api::KeyBasis kOnGpu{.parts = {"GPUProduct", "GPUCount", "Architecture", "Image"},
                           .gpu_resource = "nvidia.com/gpu",
                           .gpu_count = 2,
                           .image = "app:2"};

std::vector<std::string> products(const std::vector<GpuKind>& kinds) {
  std::vector<std::string> all;
  for (const GpuKind& kind : kinds) all.push_back(kind.product);
  return all;
}

TEST(GpuKinds, AreThoseThatThePodMayRunOn) {
  const json taint{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}};
  const json gone{{"key", "node.kubernetes.io/unschedulable"}, {"effect", "NoSchedule"}};
  const std::vector<json> nodes{node("a", "H100"), node("b", "H100-SHARED"),
                                node("c", "L4", json::array({taint})), node("d", ""),
                                node("e", "A100", json::array({gone}))};
  EXPECT_THAT(products(gpu_kinds(kOnGpu, json::object(), nodes, {})), ElementsAre("H100"));
  const json tolerant{{"tolerations", json::array({{{"key", "gpu"}, {"operator", "Exists"}}})}};
  const auto kinds = gpu_kinds(kOnGpu, tolerant, nodes, {});
  ASSERT_THAT(products(kinds), ElementsAre("H100", "L4"));
  EXPECT_THAT(kinds[0].nodes, ElementsAre("a", "b"));
  // As the operator makes it of a pod there.
  EXPECT_EQ(kinds[0].key, *api::make_key(kOnGpu, {.gpu_product = "H100", .architecture = "amd64"}));
  EXPECT_THAT(products(gpu_kinds(kOnGpu, {{"nodeSelector", {{"nvidia.com/gpu.product", "L4"}}}},
                                 nodes, {})),
              IsEmpty());
  api::KeyBasis many = kOnGpu;
  many.gpu_count = 9;
  EXPECT_THAT(gpu_kinds(many, tolerant, nodes, {}), IsEmpty());
}

TEST(GpuKinds, APodIsHeldToItsKindAndToWhatItRequired) {
  const std::vector<json> nodes{node("a", "H100"), node("b", "H100-SHARED"), node("c", "L4")};
  const json zone{{"key", "zone"}, {"operator", "In"}, {"values", {"x"}}};
  const json own{{"affinity",
                  {{"nodeAffinity",
                    {{"requiredDuringSchedulingIgnoredDuringExecution",
                      {{"nodeSelectorTerms", json::array({{{"matchExpressions", {zone}}}})}}}}}}}};
  for (json& spec : std::vector<json>{json::object(), own}) {
    const bool zoned = !spec.empty();
    const auto kinds = gpu_kinds(kOnGpu, json::object(), nodes, {});
    ASSERT_THAT(products(kinds), ElementsAre("H100", "L4"));
    restrict_to(kinds[0], spec);
    for (json candidate : nodes) {
      const bool h100 = candidate["metadata"]["name"] != "c";
      EXPECT_EQ(may_run_on(spec, candidate), h100 && !zoned) << candidate;
      candidate["metadata"]["labels"]["zone"] = "x";
      EXPECT_EQ(may_run_on(spec, candidate), h100) << candidate;
    }
  }
}

TEST(GpuKinds, WithoutAGpuInstructionSetsTellThemApart) {
  api::NodeLabels labels;
  labels.cpu_features = {"f/AVX2"};
  std::vector<json> nodes{node("a", ""), node("b", "")};
  nodes[1]["metadata"]["labels"]["f/AVX2"] = "true";
  const auto kinds = gpu_kinds({.parts = {"GPUProduct", "Image"}}, json::object(), nodes, labels);
  ASSERT_THAT(products(kinds), ElementsAre("cpu-amd64", "cpu-amd64"));
  for (const GpuKind& kind : kinds) {
    json spec = json::object();
    restrict_to(kind, spec);
    for (const json& candidate : nodes) {
      const std::string name = candidate["metadata"]["name"];
      EXPECT_EQ(may_run_on(spec, candidate), kind.nodes.contains(name)) << name;
    }
  }
}

TEST(GpuKinds, TheShippedSettingsNameTheLabels) {
  const auto settings = controller::parse_settings(shipped_settings(), "settings.yaml");
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_THAT(settings->node_labels.gpu_product, ::testing::Contains("nvidia.com/gpu.product"));
}

TEST(PrewarmCommandLine, AnOptionTakesOneWordEachTime) {
  const char* words[] = {
      "kubectl-compilecache", "prewarm", "--image", "app:2", "--image", "side=s:3", "--gpu", "H100",
      "deployment/web"};
  const CommandLine parsed = parse_command_line(std::size(words), words);
  ASSERT_TRUE(parsed.prewarm);
  EXPECT_EQ(parsed.prewarm->workload, "deployment/web");
  EXPECT_THAT(parsed.prewarm->images, ElementsAre("app:2", "side=s:3"));
  EXPECT_THAT(parsed.prewarm->products, ElementsAre("H100"));
}

// The pod's end.

class Watch : public ::testing::Test {
 protected:
  static json placed(const json& status) {
    return {{"spec", {{"nodeName", "n"}}}, {"status", status}};
  }
  static json running(bool ready) {
    return placed({{"phase", "Running"},
                   {"containerStatuses", json::array({{{"name", "app"}, {"ready", ready}}})}});
  }
  static api::CompileCacheArchive archive(int64_t generation) {
    api::CompileCacheArchive made;
    made.head.manifest_digest = "sha256:a";
    made.head.generation = generation;
    return made;
  }
  PrewarmNews look(const PrewarmSight& sight, seconds at) {
    return watch_.look(sight, Monotonic(at));
  }

  PrewarmWatch watch_{{seconds(300), seconds(120), seconds(1800)}, Monotonic(seconds(0))};
};

TEST_F(Watch, IsWarmWhenItIsSavedAndReady) {
  EXPECT_EQ(look({.pod = running(false)}, seconds(1)).state, State::kUnderWay);
  EXPECT_EQ(look({.pod = running(true)}, seconds(2)).state, State::kUnderWay);
  EXPECT_EQ(look({.pod = running(false), .archive = archive(1)}, seconds(3)).state,
            State::kUnderWay);
  auto locked = archive(1);
  locked.lock.holder = "uid/1";
  EXPECT_EQ(look({.pod = running(true), .archive = locked}, seconds(4)).text, "saving");
  EXPECT_EQ(look({.pod = running(true), .archive = archive(1)}, seconds(5)).state, State::kWarm);
}

// Its host's CPU is part of the key, and known to nobody before the pod runs.
TEST_F(Watch, NamesTheArchiveThatThePodSavedAmongThoseOfOtherCpus) {
  const auto named = [](const std::string& name, int64_t generation, const std::string& saved_by) {
    auto made = archive(generation);
    made.metadata.name = name;
    made.head.saved_by = saved_by;
    return made;
  };
  PrewarmSight sight{.pod = running(true)};
  sight.take_archive({}, {}, "web-prewarm-1");
  EXPECT_FALSE(sight.archive);
  sight.take_archive({named("llama-avx2", 3, "web-1")}, {{"llama-avx2", 3}}, "web-prewarm-1");
  EXPECT_EQ(look(sight, seconds(1)).state, State::kUnderWay);
  sight.take_archive({named("llama-avx2", 4, "web-1"), named("llama-avx512", 1, "web-prewarm-1"),
                      named("llama-sve", 1, "web-2")},
                     {{"llama-avx2", 3}}, "web-prewarm-1");
  const PrewarmNews news = look(sight, seconds(2));
  EXPECT_EQ(news.state, State::kWarm);
  EXPECT_EQ(news.archive, "llama-avx512");
}

TEST_F(Watch, WithForceANewGenerationCounts) {
  EXPECT_EQ(
      look({.pod = running(true), .archive = archive(3), .generation_before = 3}, seconds(1)).state,
      State::kUnderWay);
  const api::RecentPod told{.archive = "llama-1", .load = "exact", .effect = "full"};
  const PrewarmNews news =
      look({.pod = running(true), .archive = archive(3), .told = told, .generation_before = 3},
           seconds(2));
  EXPECT_EQ(news.state, State::kWarm);
  EXPECT_EQ(news.archive, "llama-1");
}

TEST_F(Watch, ASuspectArchiveWarmsNobody) {
  auto suspect = archive(2);
  suspect.conditions = {{.type = api::kSuspectCondition, .status = "True"}};
  EXPECT_FALSE(is_usable(suspect));
  EXPECT_EQ(look({.pod = running(true), .archive = suspect}, seconds(1)).state, State::kUnderWay);
}

TEST_F(Watch, GivesUpWhereNoNodeTakesIt) {
  const json pod{{"status",
                  {{"phase", "Pending"},
                   {"conditions", json::array({{{"type", "PodScheduled"},
                                                {"status", "False"},
                                                {"reason", "Unschedulable"},
                                                {"message", "0/3 nodes are available"}}})}}}};
  EXPECT_EQ(look({.pod = pod}, seconds(1)).state, State::kUnderWay);
  EXPECT_EQ(look({.pod = pod}, seconds(300)).state, State::kUnderWay);
  const PrewarmNews end = look({.pod = pod}, seconds(301));
  EXPECT_EQ(end.state, State::kFailed);
  EXPECT_EQ(end.text, "cannot be scheduled: 0/3 nodes are available");
}

TEST_F(Watch, WhatKeepsItHasATimeOfItsOwn) {
  EXPECT_EQ(look({.pod = json::object()}, seconds(1)).state, State::kUnderWay);
  const json pull =
      placed({{"phase", "Pending"},
              {"containerStatuses",
               json::array({{{"name", "app"},
                             {"ready", false},
                             {"state", {{"waiting", {{"reason", "ImagePullBackOff"}}}}}}})}});
  EXPECT_EQ(look({.pod = pull}, seconds(290)).state, State::kUnderWay);
  EXPECT_EQ(look({.pod = pull}, seconds(409)).state, State::kUnderWay);
  const PrewarmNews end = look({.pod = pull}, seconds(410));
  EXPECT_EQ(end.state, State::kFailed);
  EXPECT_THAT(end.text, HasSubstr("app does not start: ImagePullBackOff"));
}

TEST_F(Watch, AnImageThatCannotBePulledIsWhatIsTold) {
  const auto waits = [](const char* reason) {
    return placed(
        {{"phase", "Pending"},
         {"containerStatuses", json::array({{{"name", "app"},
                                             {"ready", false},
                                             {"restartCount", 0},
                                             {"state", {{"waiting", {{"reason", reason}}}}}}})}});
  };
  const api::RecentPod told{.load = "none"};
  EXPECT_EQ(look({.pod = waits("PodInitializing"), .told = told}, seconds(1)).text,
            "pulling the image of its container app (PodInitializing), or starting it");
  EXPECT_THAT(look({.pod = waits("ErrImagePull"), .told = told}, seconds(10)).text,
              HasSubstr("app does not start: ErrImagePull"));
  // While it is tried again.
  EXPECT_EQ(look({.pod = waits("ContainerCreating"), .told = told}, seconds(100)).state,
            State::kUnderWay);
  const PrewarmNews end = look({.pod = waits("ContainerCreating"), .told = told}, seconds(130));
  EXPECT_EQ(end.state, State::kFailed);
  EXPECT_THAT(end.text, HasSubstr("app does not start: ErrImagePull"));

  PrewarmWatch short_of_time({seconds(300), seconds(120), seconds(60)}, Monotonic(seconds(0)));
  const PrewarmNews late =
      short_of_time.look({.pod = waits("ImagePullBackOff"), .told = told}, Monotonic(seconds(60)));
  EXPECT_EQ(late.state, State::kFailed);
  EXPECT_EQ(late.text, "not warm after 1m: its container app does not start: ImagePullBackOff");
}

TEST_F(Watch, SaysHowItEnded) {
  EXPECT_EQ(look({}, seconds(1)).text, "somebody deleted the pod");
  const json failed =
      placed({{"phase", "Failed"},
              {"containerStatuses",
               json::array({{{"name", "app"}, {"state", {{"terminated", {{"exitCode", 3}}}}}}})}});
  EXPECT_EQ(look({.pod = failed}, seconds(1)).text,
            "the pod failed: its container app ended with status 3");
  const json done = placed({{"phase", "Succeeded"}});
  EXPECT_EQ(look({.pod = done}, seconds(1)).state, State::kUnderWay);
  EXPECT_EQ(look({.pod = done, .archive = archive(1)}, seconds(2)).state, State::kWarm);
  EXPECT_EQ(look({.pod = done}, seconds(31)).state, State::kFailed);
  const PrewarmNews late = look({.pod = running(true)}, seconds(1800));
  EXPECT_EQ(late.state, State::kFailed);
  EXPECT_THAT(late.text, HasSubstr("not warm after 30m: ready, not saved yet"));
}

TEST_F(Watch, ARefusedSaveIsExplained) {
  const PrewarmSight sight{
      .pod = running(true),
      .told = api::RecentPod{
          .load = "none", .save = "refused", .save_reason = "service_account_not_allowed"}};
  EXPECT_EQ(look(sight, seconds(1)).state, State::kUnderWay);
  const PrewarmNews end = look(sight, seconds(121));
  EXPECT_EQ(end.state, State::kFailed);
  EXPECT_THAT(end.text, HasSubstr("service_account_not_allowed: "));
}

}  // namespace
}  // namespace compilecache::cli
