#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/operator/control_fixture.hpp"

// The Jobs that prepare and sweep a store: when, with which rights, and the use of their
// reports.

namespace compilecache::controller {
namespace {

using nlohmann::json;
using std::chrono::hours;
using std::chrono::seconds;
using test::ControlTest;
using test::kCaches;
using test::kJobs;

TEST_F(ControlTest, AJobPreparesTheStoreAndItsReportMakesItReady) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_EQ(condition("Reconciling").at("reason"), "Preparing");
  json job = all(kJobs)[0];
  job["status"]["active"] = 1;
  server.put(kJobs, job);
  see_jobs();
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "one at a time";
  report();
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_EQ(events.records.back().reason, "Ready");
}

TEST_F(ControlTest, AJobThatHasAnOldAddressOfTheOperatorIsReplacedAtOnce) {
  const auto has_address = [&](const char* address) {
    return all(kJobs).at(0).dump().find(address) != std::string::npos;
  };
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(has_address("10.0.0.1"));
  stores.agents.set({"10.0.0.2", {}});
  reconcile_and_see();
  EXPECT_TRUE(all(kJobs).empty());
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(has_address("10.0.0.2"));

  // One that has failed meanwhile blames no NetworkPolicy, nor does it make the next one wait.
  set_job_status({{"conditions", {{{"type", "Failed"}, {"status", "True"}}}}});
  stores.agents.set({"10.0.0.3", {}});
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 2u);
  EXPECT_EQ(condition("StorageReady").at("reason"), "Preparing");
}

TEST_F(ControlTest, WithoutTheServiceOfTheAgentApiNoJobStartsAndTheStatusSaysWhy) {
  stores.agents.set({"10.0.0.1", "the Service compilecache-agent-api in system does not exist"});
  put_claim();
  reconcile_and_see();
  EXPECT_TRUE(all(kJobs).empty());
  EXPECT_EQ(condition("Ready").at("reason"), "OperatorUnreachable");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("compilecache-agent-api"),
            std::string::npos);
  EXPECT_EQ(events.records.back().type, kube::EventType::kWarning);
  stores.agents.set({"10.0.0.2", {}});
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u);
  EXPECT_EQ(condition("Ready").at("reason"), "Preparing");
}

TEST_F(ControlTest, AVolumeThatCannotBeUsedIsSaidSo) {
  put_claim();
  reconcile_and_see();
  report("fsync: No space left on device");
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "StoreUnusable");
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("No space left"),
            std::string::npos);
}

TEST_F(ControlTest, ARegistryNeedsNoClaimAndWhatItsJobFindsIsTheReason) {
  put_cache(
      {{"storage",
        {{"registry", {{"repository", "harbor.example.com/caches"}, {"secretName", "robot"}}}}}});
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(runs_unprivileged(all(kJobs)[0]));
  report("401", api::RegistryTrouble::kUnauthorized);
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "Unauthorized");
  EXPECT_EQ(events.records.back().type, kube::EventType::kWarning);
  report();
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "Ready");
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer")["status"]["summary"]["store"],
            "harbor.example.com/caches");
}

TEST_F(ControlTest, AChangeOfTheSpecIsTriedAtOnceHoweverOftenJobsFailedBefore) {
  const auto storage = [](bool adopt) {
    return json{{"storage", {{"claimName", "caches"}, {"adopt", adopt}}}};
  };
  put_cache(storage(false));
  put_claim();
  for (int tries = 0; tries < 5; ++tries) {
    clock.advance(hours(1));
    reconcile_and_see();
    ASSERT_EQ(all(kJobs).size(), 1u);
    report("it belongs to another cluster");
    reconcile_and_see();
    server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
    see_jobs();
  }
  reconcile_and_see();
  ASSERT_TRUE(all(kJobs).empty()) << "the next one is a while away";
  generation = 2;
  put_cache(storage(true));
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u);
}

// A Job every five seconds would keep a registry busy that has just asked for fewer requests.
TEST_F(ControlTest, ASweepThatFailedIsToldAndTriedAgainAfterPausesThatGrow) {
  put_claim();
  reconcile_and_see();
  report();
  reconcile_and_see();
  ASSERT_EQ(condition("StorageReady").at("reason"), "Ready");
  sweeper.ask("ml/transformer");
  const auto end_jobs = [&] {
    for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
    see_jobs();
  };
  std::vector<seconds> pauses;
  auto last = clock.wall();
  for (int attempt = 0; attempt < 6; ++attempt) {
    end_jobs();
    while (all(kJobs).empty()) reconcile_and_see();
    pauses.push_back(std::chrono::duration_cast<seconds>(clock.wall() - last));
    last = clock.wall();
    sweeper.reported_failure("ml/transformer", all(kJobs).at(0)["metadata"]["uid"],
                             "cannot list the blobs: \x1b[2J429", true);
    reconcile_and_see();
    EXPECT_EQ(condition("StorageReady").at("reason"), "NotSwept");
    EXPECT_EQ(condition("StorageReady").at("status"), "True");
    EXPECT_EQ(condition("Ready").at("status"), "True") << "pods are served as ever";
    const std::string message = condition("StorageReady").at("message");
    EXPECT_NE(message.find("cannot list the blobs"), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  EXPECT_TRUE(std::is_sorted(pauses.begin(), pauses.end()));
  EXPECT_GE(pauses.back(), seconds(160));
  EXPECT_EQ(std::count_if(events.records.begin(), events.records.end(),
                          [](const auto& event) { return event.reason == "NotSwept"; }),
            1);
  end_jobs();
  while (all(kJobs).empty()) reconcile_and_see();
  report();
  reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "Ready");
}

TEST_F(ControlTest, ASweepThatDidNotDoAllIsToldAndComesAgainWhenItIsDue) {
  put_claim();
  reconcile_and_see();
  sweeper.reported_failure("ml/transformer", all(kJobs).at(0)["metadata"]["uid"],
                           "cannot remove a file", false);
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(condition("StorageReady").at("reason"), "NotSwept");
  EXPECT_EQ(condition("StorageReady").at("status"), "True");
  EXPECT_TRUE(all(kJobs).empty());
}

class Adopting : public ControlTest {
 protected:
  Adopting() { put_claim(); }

  // A Job of the spec before, which a failure may have started again, ends first.
  void set_adopt(bool adopt) {
    if (!all(kJobs).empty()) {
      report("it belongs to another");
      server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
      see_jobs();
    }
    const json status = server.objects(kCaches).at("ml/transformer").value("status", json());
    put_cache({{"storage", {{"adopt", adopt}}}});
    json object = server.objects(kCaches).at("ml/transformer");
    object["status"] = status;
    see_cache(server.put(kCaches, object));
  }
  // Of the next Job: "adopt", "adopted" or neither. It is asked for, and reports.
  std::string next_job(const std::string& error = "") {
    sweeper.ask("ml/transformer");
    for (int i = 0; i < 30 && all(kJobs).empty(); ++i) reconcile_and_see();
    const std::string job = all(kJobs).at(0).dump();
    const auto has = [&](const char* word) { return job.find(word) != std::string::npos; };
    const std::string found = has(R"(\"adopt\")")     ? "adopt"
                              : has(R"(\"adopted\")") ? "adopted"
                                                      : "";
    report(error);
    server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
    see_jobs();
    reconcile_and_see();
    return found;
  }
};

TEST_F(Adopting, IsDoneOnceAndAgainWhenAPersonAsksForIt) {
  set_adopt(true);
  EXPECT_EQ(next_job("it belongs to another, and the network is down"), "adopt");
  EXPECT_EQ(next_job(), "adopt");
  EXPECT_EQ(next_job(), "adopted") << "it is ours";
  EXPECT_EQ(next_job("it belongs to another"), "adopted");
  EXPECT_EQ(next_job("it belongs to another"), "adopted") << "its new owner keeps it";
  EXPECT_EQ(condition("StorageReady").at("reason"), "StoreUnusable");
  // A new leader knows it too.
  sweeper.forget("ml/transformer");
  sweeper.take_over(*stores.caches.get("ml/transformer"));
  EXPECT_EQ(next_job("it belongs to another"), "adopted");
  set_adopt(false);
  EXPECT_EQ(next_job("it belongs to another"), "");
  set_adopt(true);
  EXPECT_EQ(next_job(), "adopt");
  EXPECT_EQ(next_job(), "adopted");
}

// Releases before 0.3 noted nothing.
TEST_F(Adopting, AStoreThatWasPreparedBeforeIsOurs) {
  set_adopt(true);
  EXPECT_EQ(next_job(), "adopt");
  json object = server.objects(kCaches).at("ml/transformer");
  object["status"].erase("adoptedStore");
  see_cache(server.put(kCaches, object));
  sweeper.forget("ml/transformer");
  sweeper.take_over(*stores.caches.get("ml/transformer"));
  EXPECT_EQ(next_job(), "adopted");
}

TEST_F(Adopting, AnotherStoreIsAdoptedAnew) {
  set_adopt(true);
  EXPECT_EQ(next_job(), "adopt");
  EXPECT_EQ(next_job(), "adopted");
  put_cache({{"storage", {{"adopt", true}, {"subPath", "elsewhere"}}}});
  EXPECT_EQ(next_job(), "adopt");
}

std::shared_ptr<const OwnerView> owned_by(const json& job) {
  return std::make_shared<const OwnerView>(
      OwnerView{"batch/v1", "Job", job["metadata"]["name"], job["metadata"]["uid"]});
}

class Copying : public ControlTest {
 protected:
  static constexpr char kFrom[] = "claim old-caches, old";

  Copying() {
    put_cache({{"storage",
                {{"claimName", "caches"},
                 {"copyFrom", {{"cache", "old"}, {"claimName", "old-caches"}}}}}});
    put_claim();
  }
  // Whether the only Job copies.
  bool copies() const { return all(kJobs).at(0).dump().find("old-caches") != std::string::npos; }
  // The only Job reports and goes; what follows is seen.
  void job_ends() {
    report();
    remove_job();
    reconcile_and_see();
    said_first = message();
    for (int i = 0; i < 2; ++i) reconcile_and_see();
  }
  void remove_job() {
    server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
    see_jobs();
  }
  void copied(int64_t archives, const std::string& error = "") {
    stats.copied("ml/transformer", {.from = kFrom,
                                    .time = "2026-01-01T00:00:00Z",
                                    .archives = archives,
                                    .left_out = 1,
                                    .error = error});
  }
  std::string message() const { return condition("ArchivesCopied").at("message"); }

  std::string said_first;  // before the next Job's pod is waited for
};

TEST_F(Copying, BeginsOnceTheStoreIsPreparedAndIsDoneOnce) {
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_FALSE(copies()) << "the store comes first";
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "Copying");
  job_ends();
  ASSERT_EQ(all(kJobs).size(), 1u) << "at once";
  EXPECT_TRUE(copies());
  EXPECT_EQ(condition("Ready").at("status"), "True") << "pods are served meanwhile";
  copied(3);
  job_ends();
  EXPECT_TRUE(all(kJobs).empty());
  EXPECT_EQ(condition("ArchivesCopied").at("status"), "True");
  EXPECT_NE(message().find("here: 3; left out: 1"), std::string::npos) << message();
  EXPECT_EQ(events.records.back().reason, "Copied");
  sweeper.ask("ml/transformer");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_FALSE(copies());
  put_cache({{"storage", {{"claimName", "caches"}}}});
  reconcile_and_see();
  EXPECT_TRUE(condition("ArchivesCopied").is_null());
}

TEST_F(Copying, ThatFailsIsTriedAgainAtOnceWithKeysThatWereAdded) {
  reconcile_and_see();
  job_ends();
  ASSERT_TRUE(copies());
  put_cache(
      {{"trust", {{"publicKeys", json::array({"a key"})}}},
       {"storage",
        {{"claimName", "caches"}, {"copyFrom", {{"cache", "old"}, {"claimName", "old-caches"}}}}}});
  copied(0, "came without a signature");
  job_ends();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(copies());
  job_ends();
  EXPECT_TRUE(all(kJobs).empty()) << "it got no further, and the keys are the same";
}

TEST_F(Copying, ThatFailsIsTriedAgainAtOnceAsLongAsItGetsFurther) {
  reconcile_and_see();
  job_ends();
  ASSERT_TRUE(copies());
  copied(2, "no room");
  job_ends();
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "CopyFailed");
  EXPECT_NE(said_first.find("no room"), std::string::npos) << said_first;
  EXPECT_EQ(events.records.back().type, kube::EventType::kWarning);
  EXPECT_EQ(condition("Ready").at("status"), "True") << "pods are served as ever";
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(copies());
  copied(2, "no room");
  job_ends();
  EXPECT_TRUE(all(kJobs).empty()) << "not before the next sweep is due";
  sweeper.ask("ml/transformer");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(copies());
}

// Its claim may be one that cannot be mounted here.
TEST_F(Copying, AJobThatCannotCopyIsToldAndTheStoreIsSweptWithoutIt) {
  reconcile_and_see();
  job_ends();
  ASSERT_TRUE(copies());
  set_job_status({{"conditions", {{{"type", "Failed"}, {"status", "True"}}}}});
  reconcile_and_see();
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "CopyFailed");
  EXPECT_NE(message().find("ended without a report"), std::string::npos) << message();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  remove_job();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u) << "what it was for besides is still to be done";
  EXPECT_FALSE(copies());
  job_ends();
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "CopyFailed");
  sweeper.ask("ml/transformer");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_TRUE(copies());
}

// Long before the Job's deadline.
TEST_F(Copying, AJobWhoseClaimCannotBeMountedMakesRoomForASweep) {
  reconcile_and_see();
  job_ends();
  ASSERT_TRUE(copies());
  const std::string stuck = all(kJobs).at(0)["metadata"]["name"];
  set_job_status({{"active", 1}});
  PodView pod{.ns = "ml", .name = stuck + "-x", .phase = "Pending", .sweep = "transformer"};
  pod.owner = owned_by(all(kJobs).at(0));
  stores.sweep_pods.upsert("ml/" + pod.name, std::make_shared<const PodView>(pod));
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).at(0)["metadata"]["name"], stuck) << "a volume may take a while";
  clock.advance(seconds(180));
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_NE(all(kJobs).at(0)["metadata"]["name"], stuck);
  EXPECT_FALSE(copies());
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "CopyFailed");
  EXPECT_NE(message().find("kubectl get events -n ml"), std::string::npos) << message();
  EXPECT_EQ(condition("Ready").at("status"), "True");
}

TEST_F(Copying, AJobThatHasBegunMayTakeItsTime) {
  reconcile_and_see();
  job_ends();
  ASSERT_TRUE(copies());
  const std::string name = all(kJobs).at(0)["metadata"]["name"];
  set_job_status({{"active", 1}});
  PodView pod{.ns = "ml", .name = name + "-x", .phase = "Running", .sweep = "transformer"};
  pod.owner = owned_by(all(kJobs).at(0));
  stores.sweep_pods.upsert("ml/" + pod.name, std::make_shared<const PodView>(pod));
  clock.advance(hours(1));
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).at(0)["metadata"]["name"], name);
  pod.owner = nullptr;
  stores.sweep_pods.upsert("ml/" + pod.name, std::make_shared<const PodView>(pod));
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_FALSE(copies()) << "a pod that is none of the Job's tells nothing of it";
}

TEST_F(Copying, FromItselfIsRefusedInWords) {
  put_cache({{"storage", {{"claimName", "caches"}, {"copyFrom", {{"claimName", "caches"}}}}}});
  reconcile_and_see();
  job_ends();
  EXPECT_TRUE(all(kJobs).empty());
  EXPECT_EQ(condition("ArchivesCopied").at("reason"), "SameStore");
  EXPECT_EQ(condition("Ready").at("status"), "True");
}

// Anyone who may create Jobs in another namespace writes their fields.
TEST_F(ControlTest, AJobOfAnotherNamespaceHoldsNoSweepUp) {
  put_cache({{"storage", {{"registry", {{"repository", "harbor.example.com/caches"}}}}}});
  SweepJob theirs;
  theirs.ns = "theirs";
  theirs.name = "forged";
  theirs.store = "registry/harbor.example.com/caches";
  jobs.store.upsert("theirs/forged", std::make_shared<const SweepJob>(theirs));
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u);
}

// Nor does one of its own namespace: anyone who may create Jobs may set its label, its owner and
// what it mounts.
TEST_F(ControlTest, AJobThatNobodyOfUsCreatedHoldsNoSweepUpAndIsNotOurs) {
  put_claim();
  SweepJob forged;
  forged.ns = "ml";
  forged.name = "forged";
  forged.uid = "theirs";
  forged.cache = "transformer";
  forged.cache_uid = server.objects(kCaches).at("ml/transformer").at("metadata").at("uid");
  forged.store = "volume/ml/caches";
  jobs.store.upsert("ml/forged", std::make_shared<const SweepJob>(forged));
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_FALSE(sweeper.created("ml/transformer", "theirs"));
  const std::string ours = all(kJobs).at(0)["metadata"]["uid"];
  EXPECT_TRUE(sweeper.created("ml/transformer", ours));
  EXPECT_EQ(server.objects(kCaches).at("ml/transformer")["status"]["sweepJob"], ours)
      << "for the next leader";
}

TEST_F(ControlTest, ANewLeaderWaitsForTheJobThatTheStatusNames) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const std::string noted = all(kJobs).at(0)["metadata"]["uid"];
  Sweeper next{client,
               settings,
               {.image = "image:1", .agent_ca = [] { return "PEM"; }},
               view,
               jobs,
               metrics,
               clock,
               seeded_random(2)};
  const auto cache = view.cache("ml", "transformer");
  next.take_over(*cache);
  EXPECT_TRUE(next.created("ml/transformer", noted));
  ASSERT_TRUE(next.reconcile(*cache, *claims.get("ml/caches")));
  EXPECT_EQ(all(kJobs).size(), 1u) << "it runs still";
  EXPECT_EQ(next.newest_job("ml/transformer"), noted);
}

// 0.2 noted none.
TEST_F(ControlTest, AJobOfAnEarlierReleaseIsWaitedForAndNotBelieved) {
  put_claim();
  api::CompileCache before = *view.cache("ml", "transformer");
  before.status.last_sweep.time = format_time(clock.wall());
  stores.caches.upsert("ml/transformer", std::make_shared<const api::CompileCache>(before));
  SweepJob theirs;
  theirs.ns = "ml";
  theirs.name = "old";
  theirs.uid = "old";
  theirs.cache = "transformer";
  theirs.cache_uid = before.metadata.uid;
  theirs.store = "volume/ml/caches";
  jobs.store.upsert("ml/old", std::make_shared<const SweepJob>(theirs));
  ASSERT_TRUE(reconcile());
  EXPECT_TRUE(all(kJobs).empty());
  EXPECT_FALSE(sweeper.created("ml/transformer", "old"));
  see_jobs();  // it has ended
  clock.advance(hours(7));
  ASSERT_TRUE(reconcile());
  EXPECT_EQ(all(kJobs).size(), 1u);
}

TEST_F(ControlTest, AJobWhosePodIsNotLetThroughIsReplacedByOneWithLess) {
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const json first = all(kJobs)[0];
  EXPECT_FALSE(runs_unprivileged(first));
  refuse_pods(R"(Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest")");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_NE(all(kJobs)[0]["metadata"]["name"], first["metadata"]["name"]);
  EXPECT_TRUE(runs_unprivileged(all(kJobs)[0]));
}

TEST_F(ControlTest, AJobWhosePodIsLateIsWaitedFor) {
  put_claim();
  reconcile_and_see();
  const json first = all(kJobs).at(0);
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  EXPECT_EQ(all(kJobs)[0]["metadata"]["name"], first["metadata"]["name"]);
  EXPECT_EQ(condition("Ready").at("reason"), "CannotPrepare");
  refuse_pods(R"(Error creating: pods "x" is forbidden: exceeded quota: q)");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u) << "with less it would not do either";
  EXPECT_NE(condition("Ready").at("message").get<std::string>().find("exceeded quota"),
            std::string::npos);
}

TEST_F(ControlTest, AnotherPodSecurityLevelIsTriedAnew) {
  put_claim();
  reconcile_and_see();
  refuse_pods("violates PodSecurity");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_TRUE(runs_unprivileged(all(kJobs).at(0)));
  report();
  set_job_status({{"conditions", {{{"type", "Complete"}, {"status", "True"}}}}});
  server.put(
      "/api/v1/namespaces",
      {{"metadata",
        {{"name", "ml"}, {"labels", {{"pod-security.kubernetes.io/enforce", "baseline"}}}}}});
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  sweeper.ask("ml/transformer");
  reconcile_and_see();
  EXPECT_FALSE(runs_unprivileged(all(kJobs).at(0)));
}

TEST_F(ControlTest, AVolumeThatCannotBeUsedUnprivilegedIsTriedWithMoreAgain) {
  put_claim();
  reconcile_and_see();
  refuse_pods("violates PodSecurity");
  reconcile_and_see();
  reconcile_and_see();
  ASSERT_TRUE(runs_unprivileged(all(kJobs).at(0)));
  report("mkdir: Permission denied");
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  server.erase("/api/v1/events", "ml", "refused");
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_FALSE(runs_unprivileged(all(kJobs).at(0)));
}

// How far the API server's clock is from this one.
class ClocksApart : public ControlTest, public ::testing::WithParamInterface<hours> {};

TEST_P(ClocksApart, ASweepAndAProbeEndWell) {
  job_made = clock.wall() + GetParam();
  put_claim();
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  const int64_t probe = sweeper.probe("ml/transformer", "");
  set_job_status({{"active", 1}});
  reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "one at a time";
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kPending)
      << "it began before";
  report();
  set_job_status({{"conditions", {{{"type", "Complete"}, {"status", "True"}}}}});
  const std::string first = all(kJobs).at(0)["metadata"]["uid"];
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_EQ(metrics.text().find(R"(outcome="failed")"), std::string::npos) << metrics.text();
  ASSERT_EQ(all(kJobs).size(), 2u) << "the probe follows";
  for (const json& job : all(kJobs)) {
    const std::string uid = job["metadata"]["uid"];
    if (uid != first) sweeper.reported("ml/transformer", uid, "");
  }
  reconcile_and_see();
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kSucceeded);
}

INSTANTIATE_TEST_SUITE_P(AheadAndBehind, ClocksApart, ::testing::Values(hours(2), hours(-2)),
                         [](const auto& apart) { return apart.index == 0 ? "Ahead" : "Behind"; });

TEST_F(ControlTest, AProbeWhoseJobIsDeletedHasFailedAndIsMadeAgain) {
  put_claim();
  reconcile_and_see();
  report();
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  reconcile_and_see();
  const int64_t probe = sweeper.probe("ml/transformer", "node7");
  reconcile_and_see();
  ASSERT_EQ(all(kJobs).size(), 1u);
  server.erase(kJobs, "ml", all(kJobs).at(0)["metadata"]["name"]);
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  EXPECT_EQ(sweeper.probed("ml/transformer", probe), Sweeper::Probed::kFailed);
  for (int i = 0; i < 3 && all(kJobs).empty(); ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u);
}

TEST_F(ControlTest, AReportBeforeTheControllerMetTheCacheCounts) {
  put_claim();
  sweeper.reported("ml/transformer", "uid-of-an-earlier-leaders-job", "");
  reconcile_and_see();
  EXPECT_EQ(condition("Ready").at("status"), "True");
  EXPECT_TRUE(all(kJobs).empty());
}

TEST_F(ControlTest, ASweepFollowsWhenSomebodyDeletesAnArchive) {
  put_claim();
  reconcile_and_see();
  report();
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  put_archive("mine", hours(1));
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_TRUE(all(kJobs).empty());
  stores.archives.erase("ml/mine", nullptr);
  for (int i = 0; i < 6; ++i) reconcile_and_see();
  EXPECT_EQ(all(kJobs).size(), 1u) << "the volume's index still names it";
}

TEST_F(ControlTest, ASweepFollowsWhenAnArchiveWasDeletedWhileNobodyLed) {
  put_claim();
  reconcile_and_see();
  report();
  stats.swept("ml/transformer", {.time = format_time(clock.wall())});
  for (const json& job : all(kJobs)) server.erase(kJobs, "ml", job["metadata"]["name"]);
  for (const char* name : {"mine", "other"}) put_archive(name, hours(1));
  see_jobs();
  for (int i = 0; i < 3; ++i) reconcile_and_see();
  ASSERT_EQ(server.objects(kCaches).at("ml/transformer").at("status").at("archives"), 2);
  const auto jobs_of_a_new_leader = [&] {
    CompileCacheController next{parts(), clock};
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(next.reconcile("ml/transformer"));
      see_cache(server.objects(kCaches).at("ml/transformer"));
      see_jobs();
      clock.advance(seconds(10));
    }
    return all(kJobs).size();
  };
  EXPECT_EQ(jobs_of_a_new_leader(), 0u) << "nothing is gone";
  stores.archives.erase("ml/other", nullptr);
  EXPECT_EQ(jobs_of_a_new_leader(), 1u) << "the volume's index still names it";
}

}  // namespace
}  // namespace compilecache::controller
