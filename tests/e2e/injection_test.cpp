#include "tests/e2e/sandbox.hpp"

namespace compilecache::e2e {
namespace {

class Injection : public Sandbox {};

json deployment(const json& pod, const std::string& ns, const std::string& name = "web") {
  json labels{{"app", name}};
  json metadata = pod["metadata"];
  metadata.erase("name");
  metadata.erase("namespace");
  metadata["labels"] = labels;
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", {{"name", name}, {"namespace", ns}}},
          {"spec",
           {{"selector", {{"matchLabels", labels}}},
            {"template", {{"metadata", metadata}, {"spec", pod["spec"]}}}}}};
}

const json* named(const json& list, const std::string& name) {
  for (const json& item : list) {
    if (item.value("name", "") == name) return &item;
  }
  return nullptr;
}

json dry_run(json object, const std::string& ns) {
  object["metadata"]["namespace"] = ns;
  const auto result =
      kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, object.dump());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return json::parse(result.out, nullptr, false);
}

// In one `kubectl apply`, in any order, on a claim and in the installation's registry.
TEST_F(Injection, AppliedWithItsCompileCacheTheFirstPodIsSaved) {
  const std::vector<std::pair<std::string, json>> storages{{"claim", {{"claimName", "caches"}}},
                                                           {"registry", json::object()}};
  // The webhook leaves pods alone while their claim is not bound.
  ASSERT_TRUE(eventually(seconds(60), [&] {
    return at(get_json({"pvc", "caches", "-n", ns()}), "/status/phase") == "Bound";
  }));
  for (const auto& [storage, spec] : storages) {
    for (const bool cache_first : {true, false}) {
      const std::string name = storage + (cache_first ? "-cache-first" : "-pod-first");
      SCOPED_TRACE(name);
      const json cache{{"apiVersion", "compilecache.dev/v1alpha1"},
                       {"kind", "CompileCache"},
                       {"metadata", {{"name", name}, {"namespace", ns()}}},
                       {"spec", {{"storage", spec}, {"save", {{"quietPeriod", "3s"}}}}}};
      TorchPod pod{"web", {}};
      pod.cache = name;
      const json app = deployment(manifest(pod), ns(), name);
      const json items = cache_first ? json{cache, app} : json{app, cache};
      ASSERT_EQ(testing::apply({{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}}), "");
      EXPECT_TRUE(eventually(seconds(120), [&] {
        return at(this->cache(name), "/status/archives") == 1;
      })) << at(this->cache(name), "/status");
      const auto scaled = kubectl({"delete", "deployment", name, "-n", ns(), "--wait=false"});
      EXPECT_EQ(scaled.exit_code, 0) << scaled.err;
    }
  }
}

TEST_F(Injection, ADeploymentWithTheOneAnnotationGetsEverything) {
  create_cache();
  wait_until_ready();
  ASSERT_EQ(testing::apply(deployment(manifest({"web", {"--import-only"}}), ns())), "");
  json pods;
  ASSERT_TRUE(eventually(seconds(60), [&] {
    pods = get_json({"pods", "-n", ns(), "-l", "app=web"});
    return at(pods, "/items/0/status/phase") == "Running";
  }));
  const json& injected = pods["items"][0];
  const json& spec = injected["spec"];

  EXPECT_EQ(at(injected, "/metadata/labels/compilecache.dev~1cache"), "transformer");
  EXPECT_TRUE(at(injected, "/metadata/annotations/compilecache.dev~1status").is_string());

  EXPECT_EQ(at(spec, "/initContainers/0/name"), "compilecache-load");
  EXPECT_EQ(at(spec, "/initContainers/1/name"), "compilecache-save");
  EXPECT_EQ(at(spec, "/initContainers/1/restartPolicy"), "Always");
  for (const json& container : spec["initContainers"]) {
    EXPECT_EQ(at(container, "/securityContext/readOnlyRootFilesystem"), true);
    EXPECT_EQ(at(container, "/securityContext/allowPrivilegeEscalation"), false);
    EXPECT_EQ(at(container, "/securityContext/capabilities/drop/0"), "ALL");
    const json* token = named(container["volumeMounts"], "compilecache-token");
    ASSERT_NE(token, nullptr);
    EXPECT_EQ((*token)["mountPath"], "/var/run/secrets/kubernetes.io/serviceaccount");
    const json* store = named(container["volumeMounts"], "compilecache-store");
    ASSERT_EQ(store == nullptr, place().in_registry());
    if (store != nullptr) {
      EXPECT_EQ(store->value("readOnly", false), container["name"] == "compilecache-load");
    }
  }
  const json* claim = named(spec["volumes"], "compilecache-store");
  ASSERT_EQ(claim == nullptr, place().in_registry());
  if (claim != nullptr) {
    EXPECT_EQ(at(*claim, "/persistentVolumeClaim/claimName"), "caches");
  }
  EXPECT_EQ(at(*named(spec["volumes"], "compilecache-token"),
               "/projected/sources/0/serviceAccountToken/audience"),
            "compilecache.dev/operator");
  EXPECT_TRUE(named(spec["volumes"], "compilecache-cache")->contains("emptyDir"));

  const json& app = spec["containers"][0];
  EXPECT_EQ(named(app["volumeMounts"], "compilecache-store"), nullptr);
  EXPECT_NE(named(app["volumeMounts"], "compilecache-cache"), nullptr);
  EXPECT_EQ(at(*named(app["env"], "TORCHINDUCTOR_CACHE_DIR"), "/value"),
            "/compilecache/cache/torch");
}

TEST_F(Injection, APodWithoutTheAnnotationIsWhatItWas) {
  create_cache();
  wait_until_ready();
  TorchPod plain{"plain", {"--import-only"}};
  plain.cache.clear();
  json object = manifest(plain);
  object["spec"]["automountServiceAccountToken"] = false;
  json here = dry_run(object, ns());
  json where_no_webhook_is = dry_run(object, "kube-system");
  for (json* made : {&here, &where_no_webhook_is}) {
    for (const char* name : {"namespace", "uid", "creationTimestamp"})
      (*made)["metadata"].erase(name);
  }
  EXPECT_EQ(here.dump(), where_no_webhook_is.dump());
}

TEST_F(Injection, ASecondPassChangesNothing) {
  create_cache();
  wait_until_ready();
  json once = dry_run(manifest({"twice", {"--import-only"}}), ns());
  ASSERT_EQ(at(once, "/spec/initContainers/0/name"), "compilecache-load");
  for (const char* name : {"uid", "creationTimestamp"}) once["metadata"].erase(name);
  once.erase("status");
  const json again = dry_run(once, ns());
  EXPECT_EQ(again["spec"].dump(), once["spec"].dump());
  EXPECT_EQ(at(again, "/metadata/annotations"), at(once, "/metadata/annotations"));
}

TEST_F(Injection, WhatCannotBeUsedIsSaidAndThePodStartsAsItCame) {
  create_cache();
  wait_until_ready();
  const auto created_with = [&](const json& annotations, const std::string& cache) {
    TorchPod pod{"odd", {"--import-only"}, cache, annotations};
    return kubectl({"create", "--dry-run=server", "-o", "json", "-f", "-"}, manifest(pod).dump());
  };
  const auto unknown_cache = created_with(json::object(), "nowhere");
  EXPECT_EQ(unknown_cache.exit_code, 0);
  EXPECT_NE(unknown_cache.err.find("cache_not_found"), std::string::npos) << unknown_cache.err;
  EXPECT_NE(unknown_cache.err.find("nowhere"), std::string::npos) << unknown_cache.err;
  EXPECT_EQ(unknown_cache.out.find("compilecache-load"), std::string::npos);

  const auto unknown_mode = created_with({{"compilecache.dev/mode", "Sometimes"}}, "transformer");
  EXPECT_EQ(unknown_mode.exit_code, 0);
  EXPECT_NE(unknown_mode.err.find("Sometimes"), std::string::npos) << unknown_mode.err;
  EXPECT_NE(unknown_mode.err.find("ReadOnly"), std::string::npos) << unknown_mode.err;
  EXPECT_EQ(unknown_mode.out.find("compilecache-load"), std::string::npos);

  const auto unknown_framework =
      created_with({{"compilecache.dev/frameworks", "torch,abacus"}}, "transformer");
  EXPECT_EQ(unknown_framework.exit_code, 0);
  EXPECT_NE(unknown_framework.err.find("abacus"), std::string::npos) << unknown_framework.err;
}

TEST_F(Injection, AClaimThatDoesNotExistIsNamedInTheStatus) {
  create_cache("lost", {{"storage", {{"claimName", "no-such-claim"}}}});
  json ready;
  EXPECT_TRUE(eventually(seconds(30), [&] {
    for (const json& condition : at(cache("lost"), "/status/conditions")) {
      if (condition["type"] == "Ready") ready = condition;
    }
    return ready.value("status", "") == "False" &&
           ready.value("message", "").find("no-such-claim") != std::string::npos;
  })) << ready;
}

}  // namespace
}  // namespace compilecache::e2e
