#include "cli/explain/start_phases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "api/names.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string at_minute(const std::string& minutes) { return "2026-11-20T10:" + minutes + "Z"; }

json was_true(const std::string& type, const std::string& minutes) {
  return {{"type", type}, {"status", "True"}, {"lastTransitionTime", at_minute(minutes)}};
}

json pulled(const std::string& minutes, const std::string& field, const std::string& message) {
  return {{"reason", "Pulled"},
          {"message", message},
          {"lastTimestamp", at_minute(minutes)},
          {"involvedObject", {{"kind", "Pod"}, {"uid", "uid-1"}, {"fieldPath", field}}},
          {"source", {{"component", "kubelet"}}}};
}

// A pod of vLLM that was ready after three minutes.
StartFacts pod_of_vllm() {
  StartFacts facts;
  facts.pod = {
      {"metadata",
       {{"name", "web-1"},
        {"namespace", "ml"},
        {"uid", "uid-1"},
        {"creationTimestamp", at_minute("00:00")}}},
      {"spec", {{"nodeName", "n1"}, {"containers", json::array({{{"name", "server"}}})}}},
      {"status",
       {{"conditions",
         {was_true("PodScheduled", "00:02"), was_true("PodReadyToStartContainers", "00:05"),
          was_true("Ready", "03:00")}},
        {"initContainerStatuses",
         {{{"name", api::kLoaderContainer},
           {"state",
            {{"terminated",
              {{"startedAt", at_minute("00:10")}, {"finishedAt", at_minute("00:12")}}}}}}}},
        {"containerStatuses",
         {{{"name", "server"},
           {"restartCount", 0},
           {"state", {{"running", {{"startedAt", at_minute("01:00")}}}}}}}}}}};
  facts.events = {
      pulled("00:09", "spec.initContainers{compilecache-load}",
             "Successfully pulled image \"agent:1\" in 1.5s (3.2s including waiting). Image size: "
             "12 bytes."),
      pulled("00:58", "spec.containers{server}",
             "Successfully pulled image \"vllm:2\" in 43.071s (43.071s including waiting). Image "
             "size: 8589934592 bytes.")};
  facts.injection.emplace();
  facts.injection->containers = {"server"};
  facts.injection->init_containers = {api::kLoaderContainer, api::kSaverContainer};
  facts.recent = api::RecentPod{.pod = "web-1", .archive = "llama-1", .milliseconds = 1500};
  facts.recent->ask_milliseconds = 12;
  facts.recent->compile_milliseconds = 22'500;
  facts.log =
      "2026-11-20T10:01:30.5Z (EngineCore pid=9) INFO [x.py:1] Model loading took 7.64 GiB memory "
      "and 20.5 seconds\n"
      "2026-11-20T10:02:00.123456789Z (EngineCore pid=9) INFO [x.py:1] torch.compile took 7.0 s in "
      "total\n"
      "2026-11-20T10:02:50Z (EngineCore pid=9) INFO [x.py:1] Graph capturing finished in 18 secs, "
      "took 1.0 GiB\n"
      // Weights that were loaded again much later.
      "2026-11-20T11:00:00Z (EngineCore pid=9) INFO [x.py:1] Model loading took 7.64 GiB memory "
      "and "
      "900.0 seconds\n";
  return facts;
}

// "  pull 3200" for a part.
std::vector<std::string> phases_told(const StartTimes& times) {
  std::vector<std::string> all;
  for (const StartPhase& phase : times.phases) {
    all.push_back((phase.within.empty() ? "" : phase.within + "/") + phase.name + " " +
                  std::to_string(phase.milliseconds));
  }
  return all;
}

TEST(StartPhases, EachSecondOfAnInjectedPodOfAKnownEngine) {
  const StartTimes times = start_times(pod_of_vllm());
  EXPECT_THAT(phases_told(times),
              ElementsAre("schedule 2000", "prepare 8000", "prepare/sandbox 3000",
                          "prepare/pull 3200", "ask 12", "load 1488", "start 48000",
                          "start/pull 43071", "ready 120000", "ready/weights 20500",
                          "ready/compile 7000", "ready/graph capture 18000", "ready/other 74000"));
  EXPECT_EQ(times.milliseconds, 180'000);
  EXPECT_THAT(times.untold, IsEmpty());
  EXPECT_EQ(times.phases[3].note, "image agent:1 of container compilecache-load");
  EXPECT_THAT(times.phases[10].note, HasSubstr("vLLM: torch.compile"));
}

TEST(StartPhases, WithoutALogItsFilesTellOfTheCompile) {
  StartFacts facts = pod_of_vllm();
  facts.log.reset();
  EXPECT_THAT(phases_told(start_times(facts)), Contains("ready/compile 22500"));
  EXPECT_THAT(phases_told(start_times(facts)), Not(Contains(HasSubstr("other"))));
  EXPECT_THAT(start_times(facts).untold,
              ElementsAre("weights, compile, graph capture: the log of container server was not "
                          "read"));
  facts.log = "2026-11-20T10:01:30Z epoch 1 of 40\n";
  EXPECT_THAT(start_times(facts).untold,
              ElementsAre(HasSubstr("has no line that is known of vLLM, SGLang")));
}

TEST(StartPhases, WhatCannotBeKnownIsLeftOutWithAWord) {
  StartFacts facts = pod_of_vllm();
  facts.events.clear();
  EXPECT_THAT(start_times(facts).untold, ElementsAre(HasSubstr("pull: no Event")));
  facts.events_unread = true;
  EXPECT_THAT(start_times(facts).untold, ElementsAre("pull: Events could not be read"));

  facts = pod_of_vllm();
  facts.pod["status"]["containerStatuses"][0]["restartCount"] = 1;
  EXPECT_THAT(phases_told(start_times(facts)), Not(Contains(HasSubstr("ready/weights"))));
  EXPECT_THAT(start_times(facts).untold,
              ElementsAre("start, ready: container server was started again, and the times of its "
                          "first start are lost"));

  facts = pod_of_vllm();
  facts.pod["status"]["containerStatuses"][0]["state"] = {{"waiting", json::object()}};
  EXPECT_THAT(start_times(facts).untold, ElementsAre("ready: container server has not started"));
}

TEST(StartPhases, AnImageThatWasOnTheNodeIsNoPull) {
  StartFacts facts = pod_of_vllm();
  facts.events = {pulled("00:09", "spec.containers{server}",
                         "Container image \"vllm:2\" already present on machine")};
  const StartTimes times = start_times(facts);
  EXPECT_THAT(phases_told(times), Not(Contains(HasSubstr("pull"))));
  EXPECT_THAT(times.untold, IsEmpty());
}

TEST(StartPhases, EventsOfAnotherPodOfThatNameDoNotCount) {
  StartFacts facts = pod_of_vllm();
  for (json& event : facts.events) event["involvedObject"]["uid"] = "uid-0";
  EXPECT_THAT(phases_told(start_times(facts)), Not(Contains(HasSubstr("pull"))));
}

TEST(StartPhases, AnEngineThatDoesTwoThingsAtOnceHasNoRest) {
  StartFacts facts = pod_of_vllm();
  facts.log = "2026-11-20T10:02:00Z (EngineCore pid=9) INFO torch.compile took 700.0 s in total\n";
  EXPECT_THAT(phases_told(start_times(facts)), Contains("ready/compile 700000"));
  EXPECT_THAT(phases_told(start_times(facts)), Not(Contains(HasSubstr("other"))));
}

TEST(StartPhases, APodWithoutUsIsToldToo) {
  StartFacts facts = pod_of_vllm();
  facts.injection.reset();
  facts.recent.reset();
  EXPECT_THAT(phases_told(start_times(facts)),
              ElementsAre("schedule 2000", "start 58000", "start/sandbox 3000", "start/pull 3200",
                          "start/pull 43071", "ready 120000", "ready/weights 20500",
                          "ready/compile 7000", "ready/graph capture 18000", "ready/other 74000"));
  EXPECT_EQ(application_container(facts.pod, {}), "server");
  facts.pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = "main";
  EXPECT_EQ(application_container(facts.pod, {}), "main");
}

// One sidecar whose hook loads: the kubelet tells when it began, the report how long it took.
TEST(StartPhases, AHookThatLoadsHasItsTimesFromTheReport) {
  StartFacts facts = pod_of_vllm();
  facts.injection->init_containers = {api::kSaverContainer};
  facts.pod["status"]["initContainerStatuses"] = {
      {{"name", api::kSaverContainer},
       {"restartCount", 0},
       {"state", {{"running", {{"startedAt", at_minute("00:10")}}}}}}};
  EXPECT_THAT(phases_told(start_times(facts)), Contains("prepare 8000"));
  EXPECT_THAT(phases_told(start_times(facts)), Contains("start 48500"));
}

}  // namespace
}  // namespace compilecache::cli
