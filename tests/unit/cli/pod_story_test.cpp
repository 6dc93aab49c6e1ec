#include "cli/explain/pod_story.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "cli/text/outcome_reasons.hpp"
#include "operator/archives/archive_trust.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

json condition(const std::string& type, const std::string& time) {
  return {{"type", type}, {"status", "True"}, {"lastTransitionTime", time}};
}

json injected_pod() {
  api::InjectionStatus injection;
  injection.version = "0.1.0";
  injection.frameworks = {"torch", "vllm"};
  injection.containers = {"server"};
  injection.key_basis = {.parts = {"GPUProduct", "GPUCount", "Architecture", "Image"},
                         .gpu_resource = "nvidia.com/gpu",
                         .gpu_count = 2,
                         .image = "vllm:2"};
  return {{"metadata",
           {{"name", "web-1"},
            {"namespace", "ml"},
            {"uid", "uid-1"},
            {"creationTimestamp", "2026-01-01T00:00:00Z"},
            {"labels", {{api::kCacheLabel, "llama"}}},
            {"annotations",
             {{api::kCacheAnnotation, "llama"}, {api::kStatusAnnotation, api::dump(injection)}}}}},
          {"spec", {{"nodeName", "n1"}}},
          {"status",
           {{"phase", "Running"},
            {"conditions",
             {condition("PodScheduled", "2026-01-01T00:00:02Z"),
              condition("Ready", "2026-01-01T00:01:00Z")}},
            {"initContainerStatuses",
             {{{"name", api::kLoaderContainer},
               {"state",
                {{"terminated",
                  {{"reason", "Completed"},
                   {"startedAt", "2026-01-01T00:00:13Z"},
                   {"finishedAt", "2026-01-01T00:00:18Z"}}}}}}}},
            {"containerStatuses",
             {{{"name", "server"},
               {"restartCount", 0},
               {"state", {{"running", {{"startedAt", "2026-01-01T00:00:20Z"}}}}}}}}}}};
}

api::ArchiveKey key(const std::string& image = "vllm:2", const std::string& count = "2") {
  return {{"GPUProduct", "NVIDIA-H100"},
          {"GPUCount", count},
          {"Architecture", "amd64"},
          {"Image", image}};
}

api::CompileCacheArchive archive(const api::ArchiveKey& of) {
  api::CompileCacheArchive made;
  made.metadata.name = api::archive_name("llama", of);
  made.key = of;
  made.head.manifest_digest = "sha256:1";
  return made;
}

PodFacts facts(const api::RecentPod& recent) {
  PodFacts facts;
  facts.pod = injected_pod();
  facts.cache.emplace();
  facts.cache->metadata.name = "llama";
  facts.cache->status.recent = std::vector<api::RecentPod>{recent};
  facts.node = json{
      {"metadata",
       {{"name", "n1"},
        {"labels",
         {{"nvidia.com/gpu.product", "NVIDIA-H100-SHARED"}, {"kubernetes.io/arch", "amd64"}}}}}};
  return facts;
}

api::RecentPod recent(const std::string& load) {
  api::RecentPod pod{.pod = "web-1", .pod_uid = "uid-1", .node = "n1"};
  pod.key = key();
  pod.load = load;
  pod.milliseconds = 5000;
  return pod;
}

TEST(PodStory, APodThatCannotReachTheOperatorIsToldSo) {
  PodFacts silent = facts(recent("exact"));
  silent.cache->status.recent = std::vector<api::RecentPod>{};
  silent.cache->status.conditions = {{.type = api::kPodsUnheardCondition, .status = "True"}};
  const PodStory story = tell_story(silent);
  EXPECT_THAT(story.load_why, HasSubstr("has never received a call from pods like this one"));
  EXPECT_THAT(story.change, Contains(HasSubstr("docs/run/network-policy.md")));
  silent.cache->status.conditions[0].status = "False";
  EXPECT_THAT(tell_story(silent).change, IsEmpty());
}

TEST(PodStory, AMeshsProxyAfterUsIsNamedWhereNobodyAnswered) {
  api::RecentPod unanswered = recent("none");
  unanswered.reason = "node_unknown";
  PodFacts in_mesh = facts(unanswered);
  json& init = in_mesh.pod["spec"]["initContainers"];
  init = {{{"name", "migrate"}},
          {{"name", api::kLoaderContainer}},
          {{"name", api::kSaverContainer}, {"restartPolicy", "Always"}}};
  const auto advised = Contains(HasSubstr("compilecache.dev/after: istio-proxy"));
  EXPECT_THAT(tell_story(in_mesh).change, Not(advised));
  init.push_back({{"name", "istio-proxy"}, {"restartPolicy", "Always"}});
  EXPECT_THAT(tell_story(in_mesh).change, advised);
  std::rotate(init.begin(), init.end() - 1, init.end());
  EXPECT_THAT(tell_story(in_mesh).change, Not(advised)) << "it is before us";
}

TEST(PodStory, WhatCouldNotBeReadIsNotJudged) {
  PodFacts blind = facts(recent("exact"));
  blind.cache.reset();
  blind.cache_unread = true;
  blind.unread = {"CompileCache llama: forbidden"};
  PodStory story = tell_story(blind);
  EXPECT_THAT(story.load_why, HasSubstr("could not be read"));
  EXPECT_THAT(text_of(story), Not(HasSubstr("nothing was loaded")));
  EXPECT_THAT(text_of(story), Not(HasSubstr("change    nothing")));

  blind.pod["metadata"]["annotations"].erase(api::kStatusAnnotation);
  story = tell_story(blind);
  EXPECT_EQ(story.injection, "unknown");
  EXPECT_THAT(story.change, ElementsAre(HasSubstr("ask with an account that may read")));
  blind.cache_unread = false;
  blind.events_unread = true;
  EXPECT_EQ(tell_story(blind).injection, "unknown");
  blind.events_unread = false;
  EXPECT_EQ(tell_story(blind).injection, "cache_not_found");
}

TEST(PodStory, ACompileCacheThatIsGoneIsToldSo) {
  PodFacts gone = facts(recent("exact"));
  gone.cache.reset();
  const PodStory story = tell_story(gone);
  EXPECT_THAT(story.load_why, HasSubstr("does not exist any more"));
  EXPECT_THAT(story.change, Contains(HasSubstr("create CompileCache llama again")));
}

TEST(PodStory, NothingInItReachesTheTerminalButText) {
  api::RecentPod pod = recent("failed");
  pod.reason = "io";
  pod.message = "opening a\x1B[2Jb";
  EXPECT_THAT(text_of(tell_story(facts(pod))), Not(HasSubstr("\x1B")));
}

TEST(PodStory, AWarmPodNeedsNothing) {
  api::RecentPod pod = recent("exact");
  pod.archive = api::archive_name("llama", key());
  pod.generation = 4;
  pod.bytes = 90 << 20;
  pod.ask_milliseconds = 12;
  pod.wait_milliseconds = 4000;
  pod.wait_reason = "waiting_for_first";
  pod.effect = "full";
  pod.loaded_entries = pod.read_entries = 9;
  pod.saved_milliseconds = 31'500;
  const PodStory story = tell_story(facts(pod));
  EXPECT_TRUE(story.injected);
  EXPECT_EQ(story.load, "exact");
  EXPECT_THAT(story.change, IsEmpty());
  EXPECT_EQ(story.key_archive, story.archive);

  std::map<std::string, std::string> from;
  for (const KeyPart& part : story.key) from[part.name] = part.from;
  EXPECT_EQ(from["GPUProduct"], "the label nvidia.com/gpu.product of node n1");
  EXPECT_EQ(from["Architecture"], "the label kubernetes.io/arch of node n1");
  EXPECT_EQ(from["GPUCount"], "the pod's request for nvidia.com/gpu");

  std::map<std::string, int64_t> steps;
  for (const StartPhase& step : story.start.phases) steps[step.name] = step.milliseconds;
  EXPECT_EQ(steps, (std::map<std::string, int64_t>{{"schedule", 2000},
                                                   {"prepare", 11'000},
                                                   {"ask", 12},
                                                   {"wait", 4000},
                                                   {"load", 988},
                                                   {"start", 2000},
                                                   {"ready", 40'000}}));
  const std::string page = text_of(story);
  EXPECT_THAT(page, HasSubstr("effect    full: what was loaded was used"));
  EXPECT_THAT(page, HasSubstr("for the pod that was compiling the same"));
  EXPECT_THAT(page, HasSubstr("change    nothing\n"));
  EXPECT_LE(std::count(page.begin(), page.end(), '\n'), 40) << page;
  const json machine = json_of(story);
  EXPECT_EQ(machine["load"]["generation"], 4);
  EXPECT_EQ(machine["effect"]["secondsSaved"], 31.5);
}

// The webhook has left it in the pod's status annotation.
TEST(PodStory, WhatTheStartKitWouldBringIsTold) {
  PodFacts told = facts(recent("exact"));
  EXPECT_THAT(text_of(tell_story(told)), Not(HasSubstr("start kit")));
  json& annotation = told.pod["metadata"]["annotations"][api::kStatusAnnotation];
  auto injection = api::parse_injection_status(annotation.get<std::string>()).value();
  injection.kit_left_off = {{"PLAN=1, since vLLM 0.26: what profiling found"}};
  annotation = api::dump(injection);
  const PodStory story = tell_story(told);
  EXPECT_THAT(text_of(story),
              HasSubstr("start kit off; spec.startKit: true would set PLAN=1, since "
                        "vLLM 0.26: what profiling found"));
  EXPECT_EQ(json_of(story)["startKit"], *injection.kit_left_off);
}

TEST(PodStory, AMissNamesWhatDiffersInTheNearestArchive) {
  api::RecentPod pod = recent("none");
  pod.reason = "no_archive";
  PodFacts cold = facts(pod);
  cold.archives = {archive(key("vllm:1", "8")), archive(key("vllm:2", "4"))};
  const PodStory story = tell_story(cold);
  EXPECT_EQ(story.load_reason, "no_archive");
  EXPECT_EQ(story.nearest, api::archive_name("llama", key("vllm:2", "4")));
  EXPECT_THAT(story.nearest_differs, ElementsAre("GPUCount: 4 there, 2 here"));
  EXPECT_THAT(story.change, Contains(HasSubstr("GPUCount: 4 there, 2 here")));
  EXPECT_THAT(text_of(story), HasSubstr("the nearest is llama-"));
}

TEST(PodStory, WhatDiffersInVllmsKeyIsNamedWithWhatToDo) {
  api::RecentPod pod = recent("exact");
  pod.archive = "llama-5da8bd3012";
  pod.effect = "none";
  pod.new_entries = 17;
  pod.compile_milliseconds = 22'500;
  pod.compiled = {"vllm/torch_compile_cache/0123456789/rank_0_0/backbone/artifact_0"};
  pod.differing = {"VLLM_HOST_IP", "config_hash"};
  const PodStory story = tell_story(facts(pod));
  EXPECT_THAT(story.change, ElementsAre(HasSubstr("VLLM_HOST_IP"), HasSubstr("config_hash")));
  const std::string page = text_of(story);
  EXPECT_THAT(page, HasSubstr("compiled  17 entries in 22.5 s, the first:\n"));
  EXPECT_THAT(page, HasSubstr("differs   VLLM_HOST_IP, config_hash"));
  EXPECT_EQ(json_of(story)["effect"]["differing"], json::array({"VLLM_HOST_IP", "config_hash"}));
}

TEST(PodStory, AFailedLoadSaysWhatToChange) {
  api::RecentPod pod = recent("failed");
  pod.reason = "too_slow";
  pod.message = "12 of 90 MiB in 30 s";
  const PodStory story = tell_story(facts(pod));
  EXPECT_THAT(story.load_why, HasSubstr("12 of 90 MiB"));
  EXPECT_THAT(story.change, Contains(HasSubstr("faster store")));
}

TEST(PodStory, AnArchiveSuspectAsPodsCrashedSaysWhatToReplace) {
  api::RecentPod pod = recent("none");
  pod.reason = "suspect";
  PodFacts input = facts(pod);
  const std::string digest = "sha256:" + std::string(64, '1');
  input.archives = {archive(key())};
  input.archives[0].head.manifest_digest = digest;
  controller::mark_crashing(input.archives[0], digest, {"web-0", "web-2"}, "2026-01-01T00:00:00Z");
  EXPECT_THAT(tell_story(input).change, Contains(HasSubstr("replace those that go on crashing")));

  input.archives = {archive(key())};
  input.archives[0].head.manifest_digest = digest;
  controller::mark_suspect(input.archives[0], digest, "web-0", "2026-01-01T00:00:00Z");
  EXPECT_THAT(tell_story(input).change, Contains(HasSubstr("a sweep Job checks it")));
}

TEST(PodStory, ARefusedSaveSaysWhatToChange) {
  api::RecentPod pod = recent("none");
  pod.reason = "no_archive";
  pod.save = "refused";
  pod.save_reason = "too_large";
  const PodStory story = tell_story(facts(pod));
  EXPECT_THAT(story.change, Contains("raise spec.save.maxArchiveSize"));
  EXPECT_THAT(text_of(story), HasSubstr("saved     refused, too_large: "));
}

TEST(PodStory, ALoaderThatCannotStartIsSaid) {
  PodFacts stuck = facts({});
  stuck.pod["status"]["initContainerStatuses"][0]["state"] = {
      {"waiting", {{"reason", "ImagePullBackOff"}, {"message", "no such image"}}}};
  const PodStory story = tell_story(stuck);
  EXPECT_EQ(story.load, "");
  EXPECT_THAT(story.load_why, HasSubstr("ImagePullBackOff no such image"));
  EXPECT_FALSE(story.key.empty()) << "made from the pod and its node";
}

TEST(PodStory, WhatMayNotBeReadIsSaidAndTheRestIsTold) {
  PodFacts half = facts(recent("exact"));
  half.node.reset();
  half.unread = {"node n1: forbidden"};
  const PodStory story = tell_story(half);
  EXPECT_EQ(story.key.size(), 4U) << "the operator has reported it";
  EXPECT_THAT(text_of(story), HasSubstr("unread    node n1: forbidden"));
}

struct NotInjected {
  const char* what;
  std::function<void(PodFacts&)> make;
  std::string word, why;
};

json admission_event(const std::string& reason, const std::string& time) {
  return {{"reason", reason},
          {"message", "pod web-1: " + reason},
          {"lastTimestamp", time},
          {"involvedObject", {{"kind", "ReplicaSet"}, {"name", "web"}}},
          {"source", {{"component", "compilecache-operator"}}}};
}

TEST(PodStory, WhyAPodWasNotInjected) {
  const auto not_ready = [](PodFacts& facts, const std::string& reason) {
    facts.cache->status.conditions = {{"Ready", "False", reason, "because", "", 1}};
  };
  const NotInjected cases[] = {
      {"no annotation",
       [](PodFacts& f) { f.pod["metadata"]["annotations"].erase(api::kCacheAnnotation); },
       "not_annotated", "no annotation"},
      {"its own wish",
       [](PodFacts& f) { f.pod["metadata"]["annotations"][api::kModeAnnotation] = "Disabled"; },
       "disabled", "Disabled"},
      {"measured cold",
       [](PodFacts& f) { f.pod["metadata"]["annotations"][api::kModeAnnotation] = "ForceCold"; },
       "forced_cold", "ForceCold"},
      {"no such cache", [](PodFacts& f) { f.cache.reset(); }, "cache_not_found", "no CompileCache"},
      {"not ready", [&](PodFacts& f) { not_ready(f, "ClaimNotFound"); }, "cache_not_ready",
       "ClaimNotFound: because"},
      {"the breaker", [&](PodFacts& f) { not_ready(f, "InjectionPaused"); }, "injection_paused",
       "because"},
      {"what the webhook said then counts, not what is so now",
       [&](PodFacts& f) {
         not_ready(f, "ClaimNotFound");
         f.events = {admission_event("CacheNotFound", "2025-12-31T00:00:00Z"),
                     admission_event("MountConflict", "2026-01-01T00:00:00Z")};
       },
       "mount_conflict", "pod web-1: MountConflict"},
      {"nobody asked", [](PodFacts&) {}, "not_asked", "webhook"}};
  for (const NotInjected& one : cases) {
    PodFacts input = facts({});
    input.pod["metadata"]["annotations"].erase(api::kStatusAnnotation);
    one.make(input);
    const PodStory story = tell_story(input);
    EXPECT_FALSE(story.injected) << one.what;
    EXPECT_EQ(story.injection, one.word) << one.what;
    EXPECT_THAT(story.injection_why, HasSubstr(one.why)) << one.what;
    EXPECT_THAT(text_of(story), HasSubstr("injected  no, " + one.word)) << one.what;
    EXPECT_THAT(text_of(story), Not(HasSubstr("archive"))) << one.what;
  }
}

TEST(PodStory, EventsOfOtherPodsOfTheOwnerAreNotTold) {
  PodFacts input = facts(recent("exact"));
  json other = admission_event("CacheLoaded", "2026-01-01T00:00:10Z");
  other["message"] = "pod web-11: loaded";
  input.events = {other, admission_event("CacheLoaded", "2026-01-01T00:00:19Z")};
  const PodStory story = tell_story(input);
  ASSERT_EQ(story.events.size(), 1U);
  EXPECT_EQ(story.events[0].about, "ReplicaSet web");
}

TEST(PodStory, AnEventOfThePodAndItsOwnerIsListedOnce) {
  PodFacts input = facts(recent("exact"));
  json of_owner = admission_event("CacheLoaded", "2026-01-01T00:00:19Z");
  of_owner["message"] = "pod web-1: loaded archive x";
  json of_pod = of_owner;
  of_pod["message"] = "loaded archive x";
  of_pod["involvedObject"] = {{"kind", "Pod"}, {"name", "web-1"}, {"uid", "uid-1"}};
  input.events = {of_owner, of_pod};
  const PodStory story = tell_story(input);
  ASSERT_EQ(story.events.size(), 1U);
  EXPECT_EQ(story.events[0].about, "Pod web-1");
  input.events = {of_owner};
  EXPECT_EQ(tell_story(input).events.size(), 1U);
}

// Objects of strangers: whatever is odd in them, there is a story.
TEST(PodStory, NothingInAPodIsTaken) {
  const json whole = injected_pod().flatten();
  for (const auto& [pointer, value] : whole.items()) {
    for (const json& odd : {json(nullptr), json(7), json::array({1}), json::object()}) {
      PodFacts input = facts(recent("exact"));
      input.pod[json::json_pointer(pointer)] = odd;
      EXPECT_FALSE(text_of(tell_story(input)).empty()) << pointer << " " << odd;
    }
  }
  EXPECT_FALSE(text_of(tell_story({.pod = nullptr})).empty());
}

std::string reasons_page(const std::string& from, const std::string& to) {
  std::ifstream file(testing::in_tree("docs/troubleshoot/reasons.md"));
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find(from);
  return page.substr(begin, page.find(to) - begin);
}

// Each word in backticks at the beginning of a row.
std::set<std::string> words_of(const std::string& section) {
  std::set<std::string> words;
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| `")) continue;
    std::istringstream cell(line.substr(2, line.find(" |", 2) - 2));
    for (std::string word; std::getline(cell, word, '`');) {
      if (!word.empty() && word != ", ") words.insert(word);
    }
  }
  return words;
}

std::set<std::string> words_of(std::span<const OutcomeReason> reasons) {
  std::set<std::string> words;
  for (const OutcomeReason& reason : reasons) words.insert(std::string(reason.word));
  return words;
}

TEST(OutcomeReasons, AreThoseOfThePage) {
  EXPECT_EQ(words_of(load_reasons()),
            words_of(reasons_page("## Why a pod started cold", "## Why nothing was saved")));
  EXPECT_EQ(words_of(save_reasons()), words_of(reasons_page("## Why nothing was saved", "\n\n\n")));
}

TEST(PodStory, OfAPodWithoutGpusTheCountIsExplainedToo) {
  PodFacts input = facts(recent("exact"));
  auto injection = api::parse_injection_status(
      input.pod["metadata"]["annotations"][api::kStatusAnnotation].get<std::string>());
  ASSERT_TRUE(injection);
  injection->key_basis.gpu_resource = "";
  input.pod["metadata"]["annotations"][api::kStatusAnnotation] = api::dump(*injection);
  const std::string told = text_of(tell_story(input));
  EXPECT_THAT(told, HasSubstr("the pod requests no GPU"));
  EXPECT_THAT(told, Not(HasSubstr("request for")));
}

TEST(PodStory, AMisspeltAnnotationIsNamedWithTheNearMiss) {
  PodFacts input = facts({});
  input.pod["metadata"]["annotations"] = {{"compilecache.dev/cach", "llama"}};
  input.pod["metadata"].erase("labels");
  EXPECT_EQ(tell_story(input).change.at(0),
            "compilecache.dev/cach: no such annotation; did you mean compilecache.dev/cache?");
  input.pod["metadata"]["annotations"] = json::object();
  input.pod["metadata"]["labels"] = {{"compilecache.dev/cache", "llama"}};
  EXPECT_THAT(tell_story(input).change.at(0), HasSubstr("is a label of the pod"));
}

TEST(PodStory, WhereTheCacheBecameReadyLaterARestartIsAllItTakes) {
  PodFacts input = facts({});
  input.pod["metadata"]["annotations"].erase(api::kStatusAnnotation);
  input.pod["metadata"]["labels"]["pod-template-hash"] = "6d9f";
  input.pod["metadata"]["ownerReferences"] = {{{"kind", "ReplicaSet"}, {"name", "web-6d9f"}}};
  input.events = {admission_event("CacheNotReady", "2026-01-01T00:00:00Z")};
  input.cache->status.conditions = {{.type = api::kReadyCondition, .status = "True"}};
  const std::string told = text_of(tell_story(input));
  EXPECT_THAT(told, HasSubstr("kubectl rollout restart deployment/web -n ml"));
  EXPECT_THAT(told, Not(HasSubstr("correct what is said")));
  input.cache->status.conditions[0].status = "False";
  EXPECT_THAT(text_of(tell_story(input)), HasSubstr("correct what is said"));
  input.pod["metadata"]["ownerReferences"] = {{{"kind", "Job"}, {"name", "web"}}};
  input.cache->status.conditions[0].status = "True";
  EXPECT_THAT(text_of(tell_story(input)), HasSubstr("is ready now: recreate the pod"));
}

}  // namespace
}  // namespace compilecache::cli
