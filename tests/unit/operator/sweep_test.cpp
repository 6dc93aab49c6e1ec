#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "api/agent_config.hpp"
#include "api/names.hpp"
#include "operator/storage/sweep_job.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "operator/storage/sweep_schedule.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kSweepTime{std::chrono::hours(24 * 365 * 56)};

SweepNeeds idle() {
  return {.may_run = true,
          .prepared = true,
          .last_start = kSweepTime - minutes(10),
          .last_report = kSweepTime - minutes(9),
          .interval = minutes(60),
          .min_interval = seconds(5)};
}

TEST(SweepSchedule, TheFirstPreparesTheStoreAtOnce) {
  EXPECT_EQ(decide_sweep({.may_run = true}, kSweepTime).reason, "prepare");
}

TEST(SweepSchedule, NothingRunsWithoutAClaimOrBesideAnother) {
  EXPECT_FALSE(decide_sweep({}, kSweepTime).start());
  SweepNeeds facts = idle();
  facts.running = facts.asked = true;
  EXPECT_FALSE(decide_sweep(facts, kSweepTime).start());
}

TEST(SweepSchedule, WaitsForTheInterval) {
  SweepNeeds facts = idle();
  EXPECT_FALSE(decide_sweep(facts, kSweepTime).start());
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, minutes(51));
  facts.last_report = kSweepTime - minutes(60);
  EXPECT_EQ(decide_sweep(facts, kSweepTime).reason, "interval");
}

TEST(SweepSchedule, ComesSoonerForDeletedSuspectAndCondemned) {
  SweepNeeds facts = idle();
  facts.asked = true;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).reason, "asked");
  facts = idle();
  facts.suspects = true;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).reason, "suspect");
  facts = idle();
  facts.first_deletable = kSweepTime + minutes(3);
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, minutes(3));
  facts.first_deletable = kSweepTime;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).reason, "condemned");
}

TEST(SweepSchedule, FailuresAreRetriedEverMoreRarely) {
  SweepNeeds facts = idle();
  facts.asked = true;
  facts.last_start = kSweepTime;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, seconds(5));
  facts.failures = 3;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, seconds(40));
  facts.failures = 30;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, minutes(10));
}

TEST(SweepSchedule, WhatASweepLeavesIsRetriedEverMoreRarely) {
  SweepNeeds facts = idle();
  facts.suspects = true;
  facts.last_start = kSweepTime;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, seconds(5));
  facts.repeats = 3;
  EXPECT_EQ(decide_sweep(facts, kSweepTime).again_after, seconds(40));
}

TEST(SweepLedger, TheGraceOutlastsTheLongestLoad) {
  api::CompileCacheSpec spec;
  spec.load.timeout = minutes(20);
  EXPECT_EQ(grace_of(minutes(15), spec), minutes(20));
  EXPECT_EQ(grace_of(minutes(30), spec), minutes(30));
}

api::CompileCache cache() {
  api::CompileCache made;
  made.metadata.name = "transformer";
  made.metadata.ns = "ml";
  made.metadata.uid = "u-1";
  made.spec.storage = {.claim_name = "compile-caches", .sub_path = "team/a"};
  return made;
}

api::CompileCache in_a_registry() {
  api::CompileCache made = cache();
  made.spec.storage = {.registry = api::RegistrySpec{"harbor.example.com/caches", "robot", "ca"}};
  return made;
}

SweepJobInput input() {
  return {.name = "transformer-sweep-12345678",
          .store = *api::store_of(cache(), {}),
          .image = "example.com/compilecache:1",
          .cluster_uid = "c-1",
          .agent_address = "10.96.0.7",
          .agent_name = "compilecache-agent-api.compilecache-system.svc",
          .agent_ca = "PEM"};
}

TEST(SweepJobs, RunTheAgentOnTheClaimWithATokenOfOurAudienceAlone) {
  const json job = sweep_job(cache(), input(), {});
  const json& pod = job["spec"]["template"]["spec"];
  EXPECT_EQ(job["metadata"]["ownerReferences"][0]["uid"], "u-1");
  EXPECT_EQ(job["spec"]["template"]["metadata"]["labels"][api::kSweepLabel], "transformer");
  EXPECT_EQ(job["spec"]["backoffLimit"], 0);
  EXPECT_EQ(pod["automountServiceAccountToken"], false);
  EXPECT_EQ(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "compile-caches");
  EXPECT_EQ(pod["volumes"][1]["projected"]["sources"][0]["serviceAccountToken"]["audience"],
            api::kTokenAudience);
  const json& container = pod["containers"][0];
  EXPECT_EQ(container["args"], json::array({"sweep"}));
  const auto config = api::parse_agent_config(container["env"][0]["value"].get<std::string>());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(store_directory(*config), "/compilecache/store/team/a/transformer");
  EXPECT_EQ(config->operator_address, "10.96.0.7");
  EXPECT_EQ(config->sweep.cluster_uid, "c-1");
  EXPECT_FALSE(pod.contains("tolerations"));
  EXPECT_FALSE(pod.contains("affinity"));
}

TEST(SweepJobs, UseTheMostThatTheNamespaceLetsThem) {
  const api::StoreRef volume = input().store;
  EXPECT_EQ(first_privilege(volume, ""), 0u);
  EXPECT_EQ(first_privilege(volume, "privileged"), 0u);
  EXPECT_EQ(first_privilege(volume, "baseline"), 0u);
  EXPECT_EQ(first_privilege(volume, "restricted"), 1u);
  EXPECT_EQ(first_privilege(*api::store_of(in_a_registry(), {}), "privileged"), 1u)
      << "nothing in a registry has an owner";
  const json root = sweep_job(cache(), input(), {});
  const json& as_root = root["spec"]["template"]["spec"]["containers"][0]["securityContext"];
  EXPECT_EQ(as_root["runAsUser"], 0);
  EXPECT_EQ(as_root["capabilities"]["add"], (json::array({"CHOWN", "DAC_OVERRIDE", "FOWNER"})));
  SweepJobInput lower = input();
  lower.privilege = 1;
  const json job = sweep_job(cache(), lower, {});
  const json& context = job["spec"]["template"]["spec"]["containers"][0]["securityContext"];
  EXPECT_EQ(context["runAsNonRoot"], true);
  EXPECT_FALSE(context.contains("runAsUser"));
  EXPECT_FALSE(context["capabilities"].contains("add"));
}

TEST(SweepJobs, GoToTheNodeThatHasAReadWriteOnceClaim) {
  SweepJobInput there = input();
  there.node = "node7";
  const json job = sweep_job(cache(), there, {});
  EXPECT_NE(job["spec"]["template"]["spec"]["affinity"].dump().find("node7"), std::string::npos);
  EXPECT_EQ(job["spec"]["template"]["spec"]["tolerations"][0]["effect"], "NoSchedule");
}

TEST(SweepJobs, OfAUsersRegistryMountItsSecretWhichMayBeMissing) {
  SweepJobInput there = input();
  there.store = *api::store_of(in_a_registry(), {});
  there.privilege = first_privilege(there.store, "");
  there.proxy = {{"HTTPS_PROXY", "http://proxy:3128"}};
  json job = sweep_job(in_a_registry(), there, {});
  const json& pod = job["spec"]["template"]["spec"];
  const json token = pod["volumes"][2];
  EXPECT_EQ(pod["volumes"],
            (json::array({{{"name", "compilecache-registry"},
                           {"secret", {{"secretName", "robot"}, {"optional", true}}}},
                          {{"name", "compilecache-registry-ca"},
                           {"configMap",
                            {{"name", "ca"},
                             {"optional", true},
                             {"items", json::array({{{"key", "ca.crt"}, {"path", "ca.crt"}}})}}}},
                          token})));
  EXPECT_EQ(token["name"], api::kTokenVolume);
  const json& container = pod["containers"][0];
  EXPECT_EQ(
      container["volumeMounts"],
      (json::array(
          {{{"name", "compilecache-registry"},
            {"mountPath", "/compilecache/registry"},
            {"readOnly", true}},
           {{"name", "compilecache-registry-ca"},
            {"mountPath", "/compilecache/registry-ca"},
            {"readOnly", true}},
           {{"name", api::kTokenVolume}, {"mountPath", api::kTokenPath}, {"readOnly", true}}})));
  EXPECT_EQ(container["env"].back(),
            (json{{"name", "HTTPS_PROXY"}, {"value", "http://proxy:3128"}}));
  EXPECT_EQ(container["securityContext"]["runAsNonRoot"], true);
  EXPECT_FALSE(container["securityContext"]["capabilities"].contains("add"));
  const auto config = api::parse_agent_config(container["env"][0]["value"].get<std::string>());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->store, there.store);
  const auto read = parse_sweep_job(job);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->store, "registry/harbor.example.com/caches");
}

TEST(SweepJobs, OfTheInstallationsOwnRegistryShowTheirTokenAndGoThroughNoProxy) {
  api::CompileCache made = cache();
  made.spec.storage.emplace();
  SweepJobInput there = input();
  there.store = *api::store_of(made, {"r.cc.svc:5000", "10.96.0.7:5000"});
  there.privilege = first_privilege(there.store, "");
  there.proxy = {{"HTTPS_PROXY", "http://proxy:3128"}};
  const json job = sweep_job(made, there, {});
  const json& pod = job["spec"]["template"]["spec"];
  ASSERT_EQ(pod["volumes"].size(), 1U);
  EXPECT_EQ(pod["volumes"][0]["name"], api::kTokenVolume);
  EXPECT_EQ(pod["containers"][0]["env"].dump().find("HTTPS_PROXY"), std::string::npos);
  EXPECT_EQ(parse_sweep_job(job)->store, "registry");
}

TEST(SweepJobs, ThatCopyMountTheOldStoreReadOnlyUnderNamesOfItsOwn) {
  api::CompileCache copying = in_a_registry();
  copying.spec.storage->copy_from = {
      .cache = "old", .claim_name = "old-caches", .sub_path = "team"};
  copying.spec.trust.public_keys = {"a key"};
  SweepJobInput with = input();
  with.store = *api::store_of(copying, {});
  with.copy_from = api::copy_source_of(copying, {});
  const json job = sweep_job(copying, with, {});
  const json& pod = job["spec"]["template"]["spec"];
  const json volume = {
      {"name", api::kSourceVolume},
      {"persistentVolumeClaim", {{"claimName", "old-caches"}, {"readOnly", true}}}};
  EXPECT_EQ(pod["volumes"].back(), volume);
  EXPECT_EQ(
      pod["containers"][0]["volumeMounts"].back(),
      (json{{"name", api::kSourceVolume}, {"mountPath", api::kSourcePath}, {"readOnly", true}}));
  const auto config =
      api::parse_agent_config(pod["containers"][0]["env"][0]["value"].get<std::string>());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->sweep.copy_from, with.copy_from);
  EXPECT_EQ(config->sweep.copy_name, "claim old-caches/team, old");
  EXPECT_EQ(config->sweep.trusted_keys, copying.spec.trust.public_keys);
  EXPECT_GT(config->sweep.copy_time, seconds(0));
  EXPECT_LT(config->sweep.copy_time, Settings().sweep.deadline) << "the sweep has to end too";
  EXPECT_EQ(source_directory(*config), "/compilecache/source/team/old");
  const auto read = parse_sweep_job(job);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->store, with.store.id()) << "whose limits it counts for";
}

TEST(SweepJobs, ThatCopyWithinAClaimMountItOnce) {
  api::CompileCache copying = cache();
  copying.spec.storage->copy_from = {.cache = "old", .claim_name = "compile-caches"};
  SweepJobInput with = input();
  with.copy_from = api::copy_source_of(copying, {});
  const json job = sweep_job(copying, with, {});
  const json& pod = job["spec"]["template"]["spec"];
  EXPECT_EQ(pod["volumes"].size(), 2u);
  const auto config =
      api::parse_agent_config(pod["containers"][0]["env"][0]["value"].get<std::string>());
  EXPECT_EQ(source_directory(*config), "/compilecache/store/old");
}

TEST(SweepJobs, ThatCopyFromARegistryHaveBothSecretsAndTheProxy) {
  api::CompileCache copying = in_a_registry();
  copying.spec.storage->copy_from = {
      .registry = api::RegistrySpec{"old.example.com/caches", "old-robot", "old-ca"}};
  SweepJobInput with = input();
  with.store = *api::store_of(copying, {});
  with.copy_from = api::copy_source_of(copying, {});
  with.proxy = {{"HTTPS_PROXY", "http://proxy:3128"}};
  const json job = sweep_job(copying, with, {});
  std::map<std::string, json> volumes, mounts;
  for (const json& volume : job["spec"]["template"]["spec"]["volumes"])
    volumes[volume["name"]] = volume;
  const json& container = job["spec"]["template"]["spec"]["containers"][0];
  for (const json& mount : container["volumeMounts"]) mounts[mount["name"]] = mount;
  EXPECT_EQ(volumes.at(api::kRegistrySecretVolume)["secret"]["secretName"], "robot");
  EXPECT_EQ(volumes.at(api::kSourceSecretVolume)["secret"]["secretName"], "old-robot");
  EXPECT_EQ(volumes.at(api::kSourceSecretVolume)["secret"]["optional"], true);
  EXPECT_EQ(volumes.at(api::kSourceCaVolume)["configMap"]["name"], "old-ca");
  EXPECT_EQ(mounts.at(api::kSourceSecretVolume)["mountPath"], api::kSourceSecretPath);
  EXPECT_EQ(mounts.at(api::kSourceCaVolume)["mountPath"], api::kSourceCaPath);
  EXPECT_NE(container["env"].dump().find("http://proxy:3128"), std::string::npos);
}

TEST(SweepJobs, DoNotPileUpWhereSweepsFollowClosely) {
  api::CompileCache often = cache();
  often.spec.retention.sweep_interval = seconds(5);
  EXPECT_EQ(sweep_job(often, input(), {})["spec"]["ttlSecondsAfterFinished"], 30);
  EXPECT_EQ(sweep_job(cache(), input(), {})["spec"]["ttlSecondsAfterFinished"], 600);
}

TEST(SweepJobs, NamesFitALabel) {
  const std::string name = sweep_job_name(std::string(63, 'a'), "0123456789abcdef");
  EXPECT_LE(name.size(), 63u);
  EXPECT_EQ(sweep_job_name("transformer", "0123456789abcdef"), "transformer-sweep-01234567");
}

TEST(SweepJobs, AreReadBack) {
  SweepJobInput lower = input();
  lower.privilege = 1;
  json object = sweep_job(cache(), lower, {});
  object["metadata"]["uid"] = "j-1";
  object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
  object["status"] = {{"active", 1}};
  auto job = parse_sweep_job(object);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->cache, "transformer");
  EXPECT_EQ(job->cache_uid, "u-1");
  EXPECT_EQ(job->store, api::store_of(cache(), {})->id());
  EXPECT_EQ(job->privilege, 1u);
  EXPECT_EQ(job->active, 1);
  EXPECT_EQ(job->state, SweepJob::State::kRunning);
  object["status"] = {{"conditions",
                       {{{"type", "Failed"},
                         {"status", "True"},
                         {"reason", "DeadlineExceeded"},
                         {"message", "too long"}}}}};
  job = parse_sweep_job(object);
  EXPECT_EQ(job->state, SweepJob::State::kFailed);
  EXPECT_EQ(job->failure, "DeadlineExceeded: too long");
}

TEST(SweepJobs, TheirPodsTroubleIsTold) {
  const auto waiting = [](const char* reason, const char* message) {
    PodView pod;
    pod.containers = std::make_shared<std::vector<ContainerView>>(
        1, ContainerView{.waiting_reason = reason, .waiting_message = message});
    return pod;
  };
  EXPECT_EQ(pod_trouble({.unschedulable = "0/3 nodes are available"}),
            "its pod cannot be scheduled: 0/3 nodes are available");
  EXPECT_EQ(pod_trouble(waiting("ErrImagePull", "refused")),
            "its container waits: ErrImagePull: refused");
  EXPECT_EQ(pod_trouble(waiting("ContainerCreating", "")), "");
  EXPECT_EQ(pod_trouble({}), "");
}

}  // namespace
}  // namespace compilecache::controller
