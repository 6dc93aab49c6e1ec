#include "operator/storage/storage_check.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "operator/caches/conditions.hpp"

namespace compilecache::controller {
namespace {

ClaimView bound(std::vector<std::string> modes = {"ReadWriteMany"}) {
  return {.ns = "ml",
          .name = "caches",
          .phase = "Bound",
          .access_modes = std::move(modes),
          .volume_name = "pv-1"};
}

struct Case {
  const char* name;
  StorageFacts facts;
  api::CompileCacheSpec::Storage storage;
  const char* status;
  const char* reason;
  const char* says;  // part of the message
};

class StorageCheck : public ::testing::TestWithParam<Case> {};

TEST_P(StorageCheck, SaysWhatIsWrongAndWhatToDo) {
  Case given = GetParam();
  given.storage.claim_name = "caches";
  const StorageVerdict verdict = check_storage(given.storage, given.facts);
  EXPECT_EQ(verdict.status, given.status);
  EXPECT_EQ(verdict.reason, given.reason);
  EXPECT_NE(verdict.message.find(given.says), std::string::npos) << verdict.message;
}

api::RegistryRef users_registry() {
  return {.host = "harbor.example.com",
          .repository = "caches/ml/app",
          .parent = "caches",
          .secret = "robot"};
}

StorageVerdict check_registry(const StorageFacts& facts) {
  return check_storage(api::StorageSpec{.registry = api::RegistrySpec{"harbor.example.com/caches"}},
                       facts);
}

struct ToldCase {
  api::RegistryTrouble trouble;
  const char* reason;
  const char* says;  // what to do
};

class RegistryTold : public ::testing::TestWithParam<ToldCase> {};

TEST_P(RegistryTold, WhatTheJobFoundIsSaidWithWhatToDo) {
  const auto& [trouble, reason, says] = GetParam();
  const StorageFacts facts{.store = users_registry(),
                           .prepared = true,
                           .storage_error = "it said so",
                           .storage_trouble = trouble};
  const StorageVerdict verdict = check_registry(facts);
  EXPECT_EQ(verdict.status, "False");
  EXPECT_EQ(verdict.reason, reason);
  EXPECT_NE(verdict.message.find("harbor.example.com"), std::string::npos) << verdict.message;
  EXPECT_NE(verdict.message.find("it said so; "), std::string::npos) << verdict.message;
  EXPECT_NE(verdict.message.find(says), std::string::npos) << verdict.message;
  EXPECT_TRUE(verdict.may_prepare) << "the next Job finds out whether it was fixed";
  EXPECT_FALSE(verdict.stalled);
  EXPECT_TRUE(is_fault(verdict.reason));
}

using enum api::RegistryTrouble;
INSTANTIATE_TEST_SUITE_P(
    All, RegistryTold,
    ::testing::Values(
        ToldCase{kUnauthorized, "Unauthorized", "push, pull and delete"},
        ToldCase{kCertificate, "CertificateUnknown", "caConfigMapName"},
        ToldCase{kMissing, "RepositoryNotFound", "create the repository"},
        ToldCase{kFull, "RegistryFull", "more room"},
        ToldCase{kUnreachable, "RegistryUnreachable", "NetworkPolicies and proxies"},
        ToldCase{kSecretMissing, "SecretNotFound", "kubectl create secret docker-registry"},
        ToldCase{kSecretWrongType, "SecretWrongType", "kubernetes.io/dockerconfigjson"},
        ToldCase{kSecretUnusable, "SecretUnusable", "an entry"},
        ToldCase{kCaMissing, "CaNotFound", "create the ConfigMap"},
        ToldCase{kCaUnusable, "CaUnusable", "PEM"}),
    [](const auto& tested) { return std::string(tested.param.reason); });

TEST(StorageRegistry, IsPreparedByAJobAsAVolumeIs) {
  StorageFacts facts{.store = users_registry()};
  EXPECT_EQ(check_registry(facts).reason, "Preparing");
  EXPECT_TRUE(check_registry(facts).may_prepare);
  facts.job_trouble = "no pod appeared";
  EXPECT_EQ(check_registry(facts).reason, "CannotPrepare");
  facts = {.store = users_registry(), .prepared = true};
  EXPECT_TRUE(check_registry(facts).ready()) << check_registry(facts).message;
  facts.storage_error = "in words of another release";
  EXPECT_EQ(check_registry(facts).reason, "StoreUnusable");
}

TEST(StorageRegistry, ARepositoryThatWouldBeTooLongIsRefused) {
  api::RegistryRef longest = users_registry();
  longest.repository = std::string(255, 'a');
  EXPECT_TRUE(check_registry({.store = longest, .prepared = true}).ready());
  longest.repository += 'a';
  const StorageVerdict verdict = check_registry({.store = longest, .prepared = true});
  EXPECT_EQ(verdict.reason, "InvalidRepository");
  EXPECT_NE(verdict.message.find("256 characters of at most 255"), std::string::npos)
      << verdict.message;
  EXPECT_TRUE(verdict.stalled);
  EXPECT_FALSE(verdict.may_prepare);
}

TEST(StorageRegistry, TheInstallationsOwnHasToBeInstalled) {
  const StorageVerdict none = check_storage(api::StorageSpec{}, {});
  EXPECT_EQ(none.status, "False");
  EXPECT_EQ(none.reason, "RegistryNotInstalled");
  EXPECT_NE(none.message.find("config/components/registry"), std::string::npos);
  EXPECT_FALSE(none.may_prepare);
  const api::RegistryRef own{.host = "r.cc.svc:5000", .repository = "ml/app", .own = true};
  EXPECT_TRUE(check_storage(api::StorageSpec{}, {.store = own, .prepared = true}).ready());
  const StorageVerdict full = check_storage(
      api::StorageSpec{}, {.store = own, .storage_error = "it said so", .storage_trouble = kFull});
  EXPECT_EQ(full.reason, "RegistryFull");
  EXPECT_TRUE(full.ready()) << "one namespace that fills it keeps no other's pods from loading";
  EXPECT_NE(full.message.find("kubectl logs"), std::string::npos)
      << "the users' own remedy does not help here: " << full.message;
  EXPECT_NE(full.message.find("claim compilecache-registry"), std::string::npos) << full.message;
}

// Pods go on loading what is there.
TEST(StorageRegistry, AboveItsShareItIsReadyAndSaysSo) {
  const api::RegistryRef own{.host = "r.cc.svc:5000", .repository = "ml/app", .own = true};
  StorageFacts facts{.store = own, .over_quota = "its share is 1Gi"};
  facts.own_registry = OwnRegistryTrouble{kRegistryFull, "no room"};
  EXPECT_EQ(check_storage(api::StorageSpec{}, facts).reason, "Preparing");
  facts.prepared = true;
  const StorageVerdict verdict = check_storage(api::StorageSpec{}, facts);
  EXPECT_TRUE(verdict.ready());
  EXPECT_EQ(verdict.reason, "QuotaExceeded");
  EXPECT_EQ(verdict.message, "its share is 1Gi");
  EXPECT_FALSE(verdict.stalled);
  facts.over_quota.clear();
  EXPECT_TRUE(check_storage(api::StorageSpec{}, facts).ready());
  EXPECT_EQ(check_storage(api::StorageSpec{}, facts).reason, "RegistryFull");
}

TEST(StorageRegistry, AStoreThatIsNotSweptIsReadyAndSaysWhy) {
  const api::RegistryRef own{.host = "r.cc.svc:5000", .repository = "ml/app", .own = true};
  StorageFacts facts{.store = own, .prepared = true, .sweep_trouble = "it answered 429"};
  const StorageVerdict verdict = check_storage(api::StorageSpec{}, facts);
  EXPECT_TRUE(verdict.ready());
  EXPECT_EQ(verdict.reason, "NotSwept");
  EXPECT_NE(verdict.message.find("it answered 429"), std::string::npos) << verdict.message;
  facts.over_quota = "its share is 1Gi";
  EXPECT_EQ(check_storage(api::StorageSpec{}, facts).reason, "QuotaExceeded");
}

TEST(StorageNotUsed, WithoutAClaimThereIsNothingToPrepare) {
  const StorageVerdict verdict = check_storage({}, {});
  EXPECT_TRUE(verdict.ready());
  EXPECT_EQ(verdict.reason, "NotUsed");
  EXPECT_FALSE(verdict.may_prepare);
}

ClaimView with_phase(const char* phase) {
  ClaimView claim = bound();
  claim.phase = phase;
  if (std::string(phase) != "Bound") claim.volume_name.clear();
  return claim;
}

ClaimView deleting() {
  ClaimView claim = bound();
  claim.deleting = true;
  return claim;
}

INSTANTIATE_TEST_SUITE_P(
    All, StorageCheck,
    ::testing::Values(
        Case{"missing", {}, {}, "False", "ClaimNotFound", "\"caches\" does not exist"},
        Case{"deleting", {.claim = deleting()}, {}, "False", "ClaimDeleting", "recreate it"},
        Case{"lost", {.claim = with_phase("Lost")}, {}, "False", "ClaimLost", "restore"},
        Case{"pending",
             {.claim = with_phase("Pending")},
             {},
             "Unknown",
             "ClaimNotBound",
             "kubectl describe pvc caches"},
        Case{"rwo",
             {.claim = bound({"ReadWriteOnce"})},
             {},
             "False",
             "ReadWriteOnce",
             "allowReadWriteOnce"},
        Case{"rwo allowed",
             {.claim = bound({"ReadWriteOnce"}), .volume = VolumeView{}, .prepared = true},
             {.allow_read_write_once = true},
             "True",
             "Ready",
             "prepared"},
        Case{"rwop",
             {.claim = bound({"ReadWriteOncePod"})},
             {.allow_read_write_once = true},
             "False",
             "ReadWriteOncePod",
             "ReadWriteMany"},
        Case{"rox",
             {.claim = bound({"ReadOnlyMany"})},
             {},
             "False",
             "ReadOnlyClaim",
             "ReadOnlyMany"},
        Case{"affinity",
             {.claim = bound(), .volume = VolumeView{true}},
             {},
             "False",
             "VolumeHasNodeAffinity",
             "allowNodeAffinity"},
        Case{"affinity allowed",
             {.claim = bound(), .volume = VolumeView{true}, .prepared = true},
             {.allow_node_affinity = true},
             "True",
             "Ready",
             "prepared"},
        Case{"not prepared",
             {.claim = bound(), .volume = VolumeView{}},
             {},
             "Unknown",
             "Preparing",
             "Job"},
        Case{"cannot prepare",
             {.claim = bound(), .volume = VolumeView{}, .job_trouble = "no pod appeared"},
             {},
             "False",
             "CannotPrepare",
             "no pod appeared"},
        Case{"bad volume",
             {.claim = bound(),
              .volume = VolumeView{},
              .prepared = true,
              .storage_error = "no space"},
             {},
             "False",
             "StoreUnusable",
             "no space"},
        Case{"good",
             {.claim = bound(), .volume = VolumeView{}, .prepared = true},
             {},
             "True",
             "Ready",
             "prepared"}),
    [](const auto& tested) {
      std::string name = tested.param.name;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

TEST(Claims, AreReadFromTheApiServersObjects) {
  const auto object = nlohmann::json::parse(R"({"metadata": {"namespace": "ml", "name": "caches",
      "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
      "spec": {"accessModes": ["ReadWriteOnce"], "volumeName": "pv-1"},
      "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"]}})");
  const auto claim = parse_claim(object);
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->access_modes, std::vector<std::string>{"ReadWriteMany"});
  EXPECT_TRUE(claim->deleting);
  EXPECT_FALSE(is_single_node(*claim));
  EXPECT_TRUE(parse_volume(nlohmann::json::parse(R"({"spec": {"nodeAffinity": {"required": {}}}})"))
                  .has_node_affinity);
}

const api::Condition& condition(const std::vector<api::Condition>& all, const char* type) {
  const api::Condition* found = api::find_condition(all, type);
  if (found == nullptr) throw std::runtime_error(std::string("no condition ") + type);
  return *found;
}

TEST(Conditions, ReadyWhenStorageIs) {
  std::vector<api::Condition> all;
  EXPECT_TRUE(
      update_conditions(all, {.generation = 3, .storage = {"True", "Ready", "good"}}, "t1"));
  EXPECT_EQ(condition(all, api::kReadyCondition).status, "True");
  EXPECT_EQ(condition(all, api::kReadyCondition).observed_generation, 3);
  EXPECT_EQ(condition(all, api::kReconcilingCondition).status, "False");
  EXPECT_EQ(condition(all, api::kStalledCondition).status, "False");
  EXPECT_FALSE(
      update_conditions(all, {.generation = 3, .storage = {"True", "Ready", "good"}}, "t2"));
}

TEST(Conditions, StalledWhenOnlyTheUserCanHelp) {
  std::vector<api::Condition> all;
  update_conditions(all, {.storage = {"False", "ClaimNotFound", "no claim", false, true}}, "t");
  EXPECT_EQ(condition(all, api::kReadyCondition).message, "no claim");
  EXPECT_EQ(condition(all, api::kStalledCondition).status, "True");
  EXPECT_EQ(condition(all, api::kReconcilingCondition).status, "False");
}

TEST(Conditions, ReconcilingWhileTheStoreIsPrepared) {
  std::vector<api::Condition> all;
  update_conditions(all, {.storage = {"Unknown", "Preparing", "a Job", true, false}}, "t");
  EXPECT_EQ(condition(all, api::kReadyCondition).status, "False");
  EXPECT_EQ(condition(all, api::kReconcilingCondition).status, "True");
  EXPECT_EQ(condition(all, api::kStalledCondition).status, "False");
}

TEST(Conditions, AnUnusableSpecIsStalledWithItsMessage) {
  std::vector<api::Condition> all;
  const std::string unknown = unknown_frameworks({"torch", "tensorflow"}, {"torch", "triton"});
  EXPECT_EQ(unknown,
            "spec.frameworks: \"tensorflow\" is not in the operator's settings; known are "
            "torch, triton");
  update_conditions(all,
                    {.invalid = unknown,
                     .invalid_reason = "UnknownFramework",
                     .storage = {"True", "Ready", "good"}},
                    "t");
  EXPECT_EQ(condition(all, api::kReadyCondition).reason, "UnknownFramework");
  EXPECT_EQ(condition(all, api::kStalledCondition).message, unknown);
  EXPECT_EQ(condition(all, api::kStorageReadyCondition).status, "True");
}

TEST(Conditions, PausedInjectionIsNotReady) {
  std::vector<api::Condition> all{
      {api::kInjectionPausedCondition, "True", "ImagePull", "pods wait"}};
  update_conditions(all, {.storage = {"True", "Ready", "good"}}, "t");
  EXPECT_EQ(condition(all, api::kReadyCondition).status, "False");
  EXPECT_EQ(condition(all, api::kReadyCondition).reason, "InjectionPaused");
  EXPECT_EQ(condition(all, api::kReadyCondition).message, "ImagePull: pods wait");
}

}  // namespace
}  // namespace compilecache::controller
