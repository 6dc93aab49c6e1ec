#include "cli/explain/workload_story.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

PodStory started(const std::string& name, const std::string& load, const std::string& effect = "") {
  PodStory story{.ns = "ml", .pod = name, .cache = "llama"};
  story.created = "2026-11-20T10:00:00Z";
  story.injected = true;
  story.load = load;
  story.load_why = "the archive of exactly this key";
  story.effect = effect;
  story.effect_why = "what was loaded was used, and more was compiled";
  story.key = {{"GPUProduct", "H100", ""}, {"Image", "vllm:2", ""}};
  story.key_archive = "llama-1";
  if (load == "exact") {
    story.archive = "llama-1";
    story.generation = 4;
  }
  return story;
}

PodStory cold_pod(const std::string& name, const std::string& reason, const std::string& change) {
  PodStory story = started(name, "failed");
  story.load_reason = reason;
  story.load_why = "the store was too slow for the load's budget";
  story.change = {change};
  return story;
}

PodStory plain_pod(const std::string& name) {
  PodStory story{.ns = "ml", .pod = name, .cache = "llama"};
  story.injection = "cache_not_ready";
  story.injection_why = "the CompileCache was not ready";
  story.change = {"correct what is said above"};
  return story;
}

WorkloadFacts facts_of(const std::vector<PodStory>& pods) {
  WorkloadFacts facts{.ns = "ml", .workload = "Deployment/web"};
  for (const PodStory& story : pods) facts.pods.push_back({story, false});
  facts.pods_in_all = static_cast<int64_t>(pods.size());
  return facts;
}

TEST(WorkloadStory, CountsHowPodsStartedAndWhy) {
  const WorkloadStory story = tell_workload(
      facts_of({plain_pod("web-7"), cold_pod("web-6", "too_slow", "use a faster store"),
                cold_pod("web-5", "too_slow", "what was so earlier"),
                started("web-4", "exact", "partial"), started("web-3", "exact", "full"),
                started("web-2", "exact", "full"), started("web-1", "exact")}));
  const std::string page = text_of(story);
  EXPECT_THAT(page, HasSubstr("workload  ml/Deployment/web, 7 pods\n"));
  EXPECT_THAT(page, HasSubstr("cache     CompileCache ml/llama\n"));
  EXPECT_THAT(page, HasSubstr("pods      3 warm, 1 partial, 2 cold, 1 not injected\n"));
  EXPECT_THAT(page, HasSubstr("          3 warm, exact: the archive of exactly this key\n"));
  EXPECT_THAT(page, HasSubstr("2 cold, too_slow: the store was too slow for the load's budget; the "
                              "newest: web-6\n"));
  EXPECT_THAT(page, HasSubstr("archive   llama-1, generation 4: loaded by 4 pods\n"));
  EXPECT_THAT(page, HasSubstr("fault     cold, too_slow: 2 of 7 pods"));
  EXPECT_THAT(page, HasSubstr("change    use a faster store\n"));
  EXPECT_THAT(page, Not(HasSubstr("what was so earlier")));

  const json machine = json_of(story);
  EXPECT_EQ(machine["pods"], (json{{"all", 7},
                                   {"told", 7},
                                   {"warm", 3},
                                   {"partial", 1},
                                   {"cold", 2},
                                   {"not_injected", 1},
                                   {"unknown", 0}}));
  EXPECT_EQ(machine["outcomes"][0]["reason"], "exact");
  EXPECT_EQ(machine["fault"]["reason"], "too_slow");
  EXPECT_EQ(machine["fault"]["newest"], "web-6");
  EXPECT_EQ(machine["change"], json::array({"use a faster store"}));
}

// An engine that measures its memory while it compiles finds less of it.
TEST(WorkloadStory, TheRoomForTokensIsToldColdAndWarm) {
  PodStory cold = cold_pod("web-1", "no_archive", "");
  cold.start.kv_cache_tokens = 353'000;
  PodStory warm = started("web-2", "exact", "full");
  warm.start.kv_cache_tokens = 1'603'000;
  WorkloadFacts facts = facts_of({warm, cold});
  for (WorkloadPod& pod : facts.pods) pod.timed = true;
  EXPECT_THAT(text_of(tell_workload(facts)),
              HasSubstr("KV cache  cold 353,000 tokens (web-1), warm 1,603,000 tokens (web-2)\n"));
  EXPECT_EQ(json_of(tell_workload(facts))["newest"][0]["kvCacheTokens"], 1'603'000);
  EXPECT_THAT(text_of(tell_workload(facts_of({warm, cold}))), Not(HasSubstr("KV cache")));
}

TEST(WorkloadStory, AnArchiveOfNoUseIsAColdStart) {
  PodStory useless = started("web-1", "exact", "none");
  useless.effect_why = "nothing of what was loaded was used; everything was compiled again";
  EXPECT_THAT(text_of(tell_workload(facts_of({useless}))),
              HasSubstr("1 cold, none: nothing of what was loaded was used"));
}

TEST(WorkloadStory, OfSeveralKeysItNamesWhatDiffers) {
  PodStory other = started("web-2", "exact");
  other.key[0].value = "A100";
  other.key_archive = other.archive = "llama-2";
  PodStory unknown = started("web-3", "");
  unknown.key.clear();
  unknown.key_archive.clear();
  const WorkloadStory story = tell_workload(
      facts_of({other, started("web-1", "exact"), started("web-0", "exact"), unknown}));
  EXPECT_THAT(story.differing, ElementsAre("GPUProduct"));
  const std::string page = text_of(story);
  EXPECT_THAT(page, HasSubstr("key       3 keys, which differ in GPUProduct\n"));
  EXPECT_THAT(page, HasSubstr("          llama-1, 2 pods: GPUProduct H100\n"));
  EXPECT_THAT(page, HasSubstr("          llama-2, 1 pod: GPUProduct A100\n"));
  EXPECT_THAT(page, HasSubstr("          not known of 1 pod\n"));
  EXPECT_EQ(json_of(story)["keys"][0]["parts"]["Image"], "vllm:2");

  const WorkloadStory one =
      tell_workload(facts_of({started("web-1", "exact"), started("web-0", "exact")}));
  EXPECT_THAT(one.differing, IsEmpty());
  EXPECT_THAT(text_of(one), HasSubstr("key       one for all\n          llama-1, 2 pods: "
                                      "GPUProduct H100, Image vllm:2\n"));
  EXPECT_THAT(text_of(one), HasSubstr("change    nothing\n"));
}

TEST(WorkloadStory, MediansAreOfThePodsThatWereTimed) {
  WorkloadFacts some = facts_of({started("web-4", "exact"), started("web-3", "exact"),
                                 started("web-2", "exact"), started("web-1", "exact")});
  const auto time = [&](size_t i, int64_t ready, std::vector<StartPhase> phases) {
    some.pods[i].timed = true;
    some.pods[i].story.start = {std::move(phases), {"pull: no Event"}, ready};
  };
  time(0, 40'000, {{"schedule", 1000, "", true}, {"ready", 30'000, "", true}});
  time(1, 90'000,
       {{"schedule", 3000, "", true},
        {"start", 60'000, "", true},
        {"pull", 20'000, "image a", false, "start"},
        {"pull", 15'000, "image b", false, "start"},
        {"ready", 20'000, "", true}});
  time(2, 50'000, {{"schedule", 2000, "", true}, {"ready", 25'000, "", true}});
  some.pods[2].story.start.milliseconds.reset();
  some.pods_in_all = 120;

  const WorkloadStory story = tell_workload(some);
  std::vector<std::string> medians;
  for (const MedianPhase& one : story.phases) {
    medians.push_back(one.phase.name + " " + std::to_string(one.phase.milliseconds) + " of " +
                      std::to_string(one.pods));
  }
  EXPECT_THAT(medians, ElementsAre("schedule 2000 of 3", "start 60000 of 1", "pull 35000 of 1",
                                   "ready 25000 of 3"));
  EXPECT_EQ(story.median, 65'000);
  const std::string page = text_of(story);
  EXPECT_THAT(page, HasSubstr("120 pods, of which the newest 4 were looked at"));
  EXPECT_THAT(page, HasSubstr("          web-3  90 s         warm, exact\n"));
  EXPECT_THAT(page, HasSubstr("          web-2  -            warm, exact\n"));
  EXPECT_THAT(page, Not(HasSubstr("          web-1  ")));
  EXPECT_THAT(page, HasSubstr("steps     medians of the newest 3 pods: 65 s from the creation"));
  EXPECT_THAT(page, HasSubstr("            pull      35000 ms  image a (1 pod)\n"));
  EXPECT_THAT(page, HasSubstr("untold    pull: no Event\n"));
  EXPECT_EQ(json_of(story)["steps"][2]["within"], "start");
  EXPECT_EQ(json_of(story)["newest"][2]["startMilliseconds"], nullptr);
}

TEST(WorkloadStory, WithoutPodsThereIsLittleToTell) {
  const std::string page = text_of(tell_workload(facts_of({})));
  EXPECT_THAT(page, HasSubstr("workload  ml/Deployment/web, 0 pods\npods      none\n"));
  EXPECT_EQ(json_of(tell_workload(facts_of({})))["fault"], nullptr);
}

TEST(WorkloadStory, WhatCouldNotBeReadIsToldOnce) {
  PodStory half = started("web-1", "exact");
  half.unread = {"node n1: forbidden"};
  EXPECT_THAT(tell_workload(facts_of({half, half})).unread, ElementsAre("node n1: forbidden"));
}

}  // namespace
}  // namespace compilecache::cli
