#include <gtest/gtest.h>

#include "tests/integration/operator_fixture.hpp"
#include "tests/support/paths.hpp"

// The operator as users meet it, on a real API server.

namespace compilecache::testing {
namespace {

TEST_F(OperatorTest, IsHealthyAndHasMetrics) {
  EXPECT_EQ(process->get("/healthz").first, 200);
  EXPECT_EQ(process->get("/elsewhere").first, 404);
  const std::string metrics = process->get("/metrics").second;
  EXPECT_NE(metrics.find("compilecache_webhook_requests_total{reason=\"injected\"}"),
            std::string::npos);
}

TEST_F(OperatorTest, TheLeaderSaysWhereItIs) {
  json slice;
  EXPECT_TRUE(eventually(seconds(15), [&] {
    slice = read({"endpointslice", api::kAgentService, "-n", kOperatorNamespace});
    return at(slice, "/ports/0/port") == process->agent_port();
  })) << slice;
  EXPECT_EQ(at(slice, "/endpoints/0/addresses/0"), "10.1.2.3");
  EXPECT_EQ(at(slice, "/metadata/labels/kubernetes.io~1service-name"), api::kAgentService);
}

TEST_F(OperatorTest, KeepsTheCaBundleRight) {
  auto bundle = [] {
    const json configuration = read({"mutatingwebhookconfiguration", "compilecache"});
    const json value = at(configuration, "/webhooks/0/clientConfig/caBundle");
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  ASSERT_TRUE(eventually(seconds(15), [&] { return !bundle().empty(); }));
  const std::string before = bundle();
  kubectl({"patch", "mutatingwebhookconfiguration", "compilecache", "--type=json", "-p",
           R"([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}])"});
  EXPECT_TRUE(eventually(seconds(30), [&] { return bundle() == before; }));
}

TEST_F(OperatorTest, SaysThatTheClaimDoesNotExist) {
  ASSERT_EQ(make_cache("transformer", {{"storage", {{"claimName", "nowhere"}}}}), "");
  ASSERT_TRUE(becomes("transformer", "Stalled", "True")) << process->log();
  const json ready = cache_condition(ns, "transformer", "Ready");
  EXPECT_EQ(ready.at("status"), "False");
  EXPECT_EQ(ready.at("reason"), "ClaimNotFound");
  EXPECT_NE(ready.at("message").get<std::string>().find("\"nowhere\" does not exist"),
            std::string::npos);
  EXPECT_TRUE(eventually(seconds(10), [&] {
    return read({"events", "-n", ns}).dump().find("ClaimNotFound") != std::string::npos;
  }));
  EXPECT_TRUE(jobs("transformer").empty());
}

TEST_F(OperatorTest, ReadWriteOnceHasToBeAllowed) {
  make_claim(ns, "caches", "ReadWriteOnce");
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  ASSERT_TRUE(becomes("transformer", "Stalled", "True"));
  EXPECT_EQ(cache_condition(ns, "transformer", "StorageReady").at("reason"), "ReadWriteOnce");
}

TEST_F(OperatorTest, NamesTheFrameworkThatItDoesNotKnow) {
  ASSERT_EQ(make_cache("transformer", {{"frameworks", {"torch", "tensorflow"}}}), "");
  ASSERT_TRUE(becomes("transformer", "Stalled", "True"));
  const json ready = cache_condition(ns, "transformer", "Ready");
  EXPECT_EQ(ready.at("reason"), "UnknownFramework");
  EXPECT_NE(ready.at("message").get<std::string>().find("\"tensorflow\""), std::string::npos);
}

TEST_F(OperatorTest, BecomesReadyWhenAJobHasPreparedTheStore) {
  make_claim(ns, "caches");
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  ASSERT_TRUE(becomes("transformer", "Reconciling", "True"));
  EXPECT_EQ(cache_condition(ns, "transformer", "StorageReady").at("reason"), "Preparing");
  sweep("transformer");
  EXPECT_TRUE(becomes("transformer", "Ready", "True")) << status("transformer");
  EXPECT_EQ(cache_condition(ns, "transformer", "Stalled").at("status"), "False");
  EXPECT_TRUE(at(status("transformer"), "/lastSweep/time").is_string());
  EXPECT_EQ(at(status("transformer"), "/observedGeneration"), 1);
}

TEST_F(OperatorTest, TellsWhyTheVolumeCannotBeUsed) {
  make_claim(ns, "caches");
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  sweep("transformer", {{"storage_error", "creating a file: Read-only file system"}});
  ASSERT_TRUE(becomes("transformer", "StorageReady", "False"));
  EXPECT_NE(cache_condition(ns, "transformer", "Ready")
                .at("message")
                .get<std::string>()
                .find("Read-only file system"),
            std::string::npos);
  sweep("transformer");
  EXPECT_TRUE(becomes("transformer", "Ready", "True"));
}

TEST_F(OperatorTest, TriesWithLessWhenAJobsPodIsRefusedForItsPrivileges) {
  make_claim(ns, "caches");
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  auto has_job_with = [&](const char* key, const json& value) {
    for (const json& job : jobs("transformer")) {
      if (at(job, std::string("/spec/template/spec/containers/0/securityContext/") + key) == value)
        return true;
    }
    return false;
  };
  ASSERT_TRUE(eventually(seconds(20), [&] { return has_job_with("runAsUser", 0); }))
      << process->log();
  const json job = jobs("transformer").at(0);
  // As the Job controller says it.
  ASSERT_EQ(apply({{"apiVersion", "v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", "refused"}, {"namespace", ns}}},
                   {"involvedObject",
                    {{"apiVersion", "batch/v1"},
                     {"kind", "Job"},
                     {"namespace", ns},
                     {"name", job.at("metadata").at("name")},
                     {"uid", job.at("metadata").at("uid")}}},
                   {"type", "Warning"},
                   {"reason", "FailedCreate"},
                   {"message", "Error creating: pods \"x\" is forbidden: violates PodSecurity"},
                   {"lastTimestamp", "2026-01-01T00:00:00Z"}}),
            "");
  EXPECT_TRUE(eventually(seconds(40), [&] { return has_job_with("runAsNonRoot", true); }))
      << process->log();
}

TEST_F(OperatorTest, StartsUnprivilegedWherePodSecurityIsRestricted) {
  make_namespace(ns, {{"pod-security.kubernetes.io/enforce", "restricted"}});
  make_claim(ns, "caches");
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  ASSERT_TRUE(eventually(seconds(20), [&] { return !jobs("transformer").empty(); }));
  EXPECT_EQ(
      at(jobs("transformer")[0], "/spec/template/spec/containers/0/securityContext/runAsNonRoot"),
      true);
}

TEST_F(OperatorTest, InjectsOnlyWhenTheStoreIsReady) {
  ASSERT_EQ(make_cache("transformer", json::object()), "");
  ASSERT_TRUE(becomes("transformer", "Stalled", "True"));
  const json refused = process->review(plain_pod("web", "transformer"), ns);
  EXPECT_EQ(refused.at("allowed"), true);
  EXPECT_FALSE(refused.contains("patch"));
  EXPECT_TRUE(refused.contains("warnings"));
  make_claim(ns, "caches");
  sweep("transformer");
  EXPECT_TRUE(eventually(seconds(10), [&] {
    return process->review(plain_pod("web", "transformer"), ns).contains("patch");
  }));
}

TEST_F(OperatorTest, APodSavesAndTheNextOneLoads) {
  make_ready_cache("transformer");
  const std::string first = run_pod("first", "transformer");
  auto [load_status, load] = process->call("POST", "/v1/load", first, {{"cache", "transformer"}});
  ASSERT_EQ(load_status, 200) << load << process->log();
  EXPECT_EQ(load.at("decision"), "none");
  EXPECT_EQ(load.at("gpu_product"), "NVIDIA-H100-80GB-HBM3");

  const json save = granted(first, "transformer", "a1");
  // Another pod of the same key has to wait meanwhile.
  const std::string second = run_pod("second", "transformer");
  const json busy = process
                        ->call("POST", "/v1/saves", second,
                               {{"cache", "transformer"}, {"attempt", "b1"}, {"new_files", 1}})
                        .second;
  EXPECT_EQ(busy.at("decision"), "busy") << busy;
  const auto [commit_status, head] = commit(first, save, "one");
  ASSERT_EQ(commit_status, 200) << head;
  EXPECT_EQ(head.at("generation"), 1);

  EXPECT_TRUE(eventually(seconds(15), [&] {
    return at(status("transformer"), "/archives") == 1 &&
           at(status("transformer"), "/activePods") == 2;
  })) << status("transformer");
  EXPECT_EQ(at(status("transformer"), "/gpuProducts"), 1);
  EXPECT_EQ(at(status("transformer"), "/totalBytes"), 1000);
  EXPECT_EQ(at(status("transformer"), "/saves/committed"), 1);
  const json archives = read_list({"compilecachearchives", "-n", ns});
  ASSERT_EQ(archives.size(), 1u);
  EXPECT_EQ(at(archives[0], "/metadata/labels/compilecache.dev~1gpu-product"),
            "NVIDIA-H100-80GB-HBM3");

  const json found = process->call("POST", "/v1/load", second, {{"cache", "transformer"}}).second;
  EXPECT_EQ(found.at("decision"), "load") << found;
  EXPECT_EQ(found.at("match"), "exact");
  EXPECT_EQ(found.at("manifest_digest"), head.at("manifest_digest"));
  process->call("POST", "/v1/loaded", second,
                {{"cache", "transformer"},
                 {"outcome", "SUCCESS"},
                 {"match", "exact"},
                 {"archive", found.at("archive")},
                 {"manifest_digest", found.at("manifest_digest")},
                 {"milliseconds", 37},
                 {"source", "operator"}});
  EXPECT_TRUE(eventually(seconds(15), [&] {
    return at(status("transformer"), "/loads/exact") == 1;
  })) << status("transformer");
}

TEST_F(OperatorTest, ArchivesOfAnotherClusterBecomeItsOwn) {
  make_claim(ns, "caches");
  json spec = {{"storage", {{"claimName", "caches"}, {"adopt", true}}}};
  ASSERT_EQ(make_cache("transformer", spec), "");
  const auto left = [](const std::string& name, const json& key) {
    return json{{"key", key},
                {"manifest_digest", digest("manifest " + name)},
                {"blobs", json::array({digest("layer " + name)})},
                {"generation", 7},
                {"saved_at", "2026-01-01T00:00:00Z"},
                {"compressed_bytes", 1000},
                {"files", 3},
                {"layers", 1}};
  };
  const json key = {{"GPUProduct", "NVIDIA-H100-80GB-HBM3"},
                    {"GPUCount", "1"},
                    {"Architecture", "amd64"},
                    {"Image", "example.com/app:1"}};
  json endless = key;
  endless["Image"] = std::string(5000, 'x');  // more than an object may have
  json inventory = {{"inventory", json::array()}};
  for (const char* blob : {"manifest one", "layer one", "manifest two", "layer two"}) {
    inventory["inventory"].push_back({{"digest", digest(blob)}, {"size", 100}});
  }
  const json answer =
      sweep("transformer", inventory, json::array({left("one", key), left("two", endless)}));
  EXPECT_EQ(answer.at("archives").size(), 1U) << "the index keeps it: " << answer;
  ASSERT_TRUE(becomes("transformer", "Ready", "True")) << status("transformer");
  const auto archives = read_list({"compilecachearchives", "-n", ns});
  ASSERT_EQ(archives.size(), 1U);
  EXPECT_EQ(at(archives[0], "/status/head/generation"), 7);
  EXPECT_EQ(at(archives[0], "/metadata/ownerReferences/0/name"), "transformer");

  const std::string pod = run_pod("web", "transformer");
  const json load = process->call("POST", "/v1/load", pod, {{"cache", "transformer"}}).second;
  EXPECT_EQ(load.at("match"), "exact") << load;
  EXPECT_EQ(load.at("manifest_digest"), digest("manifest one"));
}

TEST_F(OperatorTest, RefusesWhoIsNotAnInjectedPod) {
  make_ready_cache("transformer");
  EXPECT_EQ(process->call("POST", "/v1/load", "no-token", {{"cache", "transformer"}}).first, 401);
  json pod = plain_pod("stranger", "transformer");
  pod["metadata"].erase("annotations");
  ASSERT_EQ(apply(pod), "");
  const auto [code, body] =
      process->call("POST", "/v1/load", pod_token(ns, "stranger"), {{"cache", "transformer"}});
  EXPECT_EQ(code, 403) << body;
}

TEST_F(OperatorTest, CollectsAnArchiveThatNobodyUses) {
  // The grace of condemned blobs is at least as long as a load may take.
  make_ready_cache("transformer", {{"retention", {{"unusedFor", "3s"}, {"sweepInterval", "1h"}}},
                                   {"load", {{"timeout", "5s"}}}});
  const std::string token = run_pod("web", "transformer");
  ASSERT_EQ(commit(token, granted(token, "transformer", "a1"), "one").first, 200);
  // Its pod still runs: it stays, however old.
  EXPECT_FALSE(eventually(seconds(6), [&] {
    return read_list({"compilecachearchives", "-n", ns}).empty();
  }));
  kubectl({"delete", "pod", "web", "-n", ns, "--grace-period=0", "--force"});
  EXPECT_TRUE(eventually(seconds(20), [&] {
    return read_list({"compilecachearchives", "-n", ns}).empty();
  })) << process->log();
  EXPECT_TRUE(eventually(seconds(10), [&] { return at(status("transformer"), "/archives") == 0; }));

  // Its blobs are swept in two steps: seen unreferenced by one Job, deletable for one after the
  // grace.
  const std::string layer = digest("layer one");
  const json inventory = {{"inventory", json::array({{{"digest", layer}, {"size", 1000}}})}};
  EXPECT_EQ(sweep("transformer", inventory).value("deletable", json::array()), json::array());
  EXPECT_TRUE(eventually(seconds(10), [&] {
    return status("transformer").value("condemned", json::array()).dump().find(layer) !=
           std::string::npos;
  })) << status("transformer");
  EXPECT_EQ(at(status("transformer"), "/lastSweep/removedArchives"), 1);
  EXPECT_EQ(sweep("transformer", {{"freed_bytes", 1000}, {"removed_blobs", 1}}).at("deletable"),
            json::array({layer}));
}

TEST_F(OperatorTest, LeavesNothingToWaitForWhenItEnds) {
  // A second replica that never leads, so that the others' one is left alone.
  OperatorProcess second(kSettings);
  ASSERT_TRUE(eventually(seconds(60), [&] { return second.ready(); })) << second.log();
  EXPECT_NE(second.get("/metrics").second.find("\ncompilecache_leader 0"), std::string::npos);
  EXPECT_EQ(second.call("POST", "/v1/saves", "x", {{"cache", "c"}}).first, 503);
  EXPECT_EQ(second.end(), 0) << second.log();
}

// The last of the suite: the leader goes and another takes over.
TEST_F(OperatorTest, ZHandsOverAtOnceAndKeepsTheCounters) {
  make_ready_cache("transformer");
  const std::string token = run_pod("web", "transformer");
  ASSERT_EQ(process->call("POST", "/v1/load", token, {{"cache", "transformer"}}).first, 200);
  process->call("POST", "/v1/loaded", token,
                {{"cache", "transformer"}, {"outcome", "DOES_NOT_EXIST"}, {"source", "operator"}});
  auto next = std::make_unique<OperatorProcess>(kSettings);
  ASSERT_TRUE(eventually(seconds(60), [&] { return next->ready(); })) << next->log();
  EXPECT_EQ(process->end(), 0) << process->log();
  process = std::move(next);
  EXPECT_TRUE(eventually(seconds(15), [] { return leads(); })) << process->log();
  EXPECT_EQ(at(status("transformer"), "/loads/missing"), 1);
  EXPECT_TRUE(eventually(seconds(15), [&] {
    const json slice = read({"endpointslice", api::kAgentService, "-n", kOperatorNamespace});
    return at(slice, "/ports/0/port") == process->agent_port();
  }));
  EXPECT_TRUE(becomes("transformer", "Ready", "True"));
}

// Pods reach the operator by the ClusterIP of its Service, as config/ installs it.
class AgentServiceTest : public OperatorTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(install_operator(), "");
    make_node("node-h100", "NVIDIA-H100-80GB-HBM3");
    process =
        std::make_unique<OperatorProcess>(kSettings, OperatorProcessOptions{.agent_address = ""});
    ASSERT_TRUE(eventually(seconds(60), [] { return process->ready() && leads(); }))
        << process->log();
  }
  static void TearDownTestSuite() {
    kubectl({"delete", "service", "in-its-place", "-n", kOperatorNamespace});
    OperatorTest::TearDownTestSuite();
  }
  static std::string address_of_service() {
    const json address =
        at(read({"service", api::kAgentService, "-n", kOperatorNamespace}), "/spec/clusterIP");
    return address.is_string() ? address.get<std::string>() : "";
  }
  // Nobody else gets that address for now.
  static void take_address(const std::string& address) {
    ASSERT_EQ(
        apply({{"apiVersion", "v1"},
               {"kind", "Service"},
               {"metadata", {{"name", "in-its-place"}, {"namespace", kOperatorNamespace}}},
               {"spec", {{"clusterIP", address}, {"ports", json::array({{{"port", 443}}})}}}}),
        "");
  }
};

TEST_F(AgentServiceTest, DeletedAndAppliedAgainPodsAndJobsGetItsNewAddress) {
  make_ready_cache("transformer");
  const std::string before = address_of_service();
  const auto pod = process->injected(plain_pod("first", "transformer"), ns);
  ASSERT_TRUE(pod);
  EXPECT_NE(pod->dump().find(before), std::string::npos);

  kubectl({"delete", "service", api::kAgentService, "-n", kOperatorNamespace});
  kubectl({"delete", "endpointslice", api::kAgentService, "-n", kOperatorNamespace});
  take_address(before);
  ASSERT_EQ(make_cache("another", json::object()), "");
  ASSERT_TRUE(eventually(seconds(30), [&] {
    const json ready = cache_condition(ns, "transformer", "Ready");
    return ready.is_object() && ready.at("reason") == "OperatorUnreachable";
  })) << status("transformer");
  EXPECT_NE(cache_condition(ns, "transformer", "Ready").dump().find("compilecache-agent-api"),
            std::string::npos);

  const auto applied = kubectl({"apply", "-f", in_tree("config/operator/services.yaml")});
  ASSERT_EQ(applied.exit_code, 0) << applied.err;
  const std::string now = address_of_service();
  ASSERT_NE(now, before);
  EXPECT_TRUE(becomes("transformer", "Ready", "True")) << status("transformer");
  const auto next = process->injected(plain_pod("second", "transformer"), ns);
  ASSERT_TRUE(next);
  EXPECT_NE(next->dump().find(now), std::string::npos) << *next;
  EXPECT_TRUE(eventually(seconds(30), [&] {
    for (const json& job : jobs("another")) {
      if (job.dump().find(now) != std::string::npos) return true;
    }
    return false;
  })) << process->log();
  EXPECT_TRUE(eventually(seconds(30), [] {
    return read({"endpointslice", api::kAgentService, "-n", kOperatorNamespace}).is_object();
  }));
}

}  // namespace
}  // namespace compilecache::testing
