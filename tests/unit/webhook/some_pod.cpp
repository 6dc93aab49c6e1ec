#include "tests/unit/webhook/some_pod.hpp"

#include <rapidcheck.h>

#include "api/names.hpp"

namespace compilecache::webhook::testing {

using nlohmann::json;

namespace {

bool maybe() { return *rc::gen::arbitrary<bool>(); }

template <typename T>
T one_of(const std::vector<T>& all) {
  return *rc::gen::elementOf(all);
}

// One of these JSON texts.
json one_text_of(const std::vector<std::string>& all) { return json::parse(one_of(all)); }

json some_resources() {
  return one_text_of({
      R"({})",
      R"({"requests": {"cpu": "100m", "memory": "64Mi"}})",
      R"({"limits": {"cpu": "2", "memory": "2Gi"}})",
      R"({"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}})",
      R"({"limits": {"nvidia.com/gpu": "1"}})",
      R"({"limits": {"nvidia.com/gpu": 2, "cpu": 1, "memory": "1Gi"}})",
      R"({"requests": {"ephemeral-storage": "1Gi", "cpu": "0"}})",
      R"({"limits": {"example.org/odd": "1"}})",
      R"({"limits": {"rdma/hca": "1"}})",
  });
}

json some_variable() {
  const std::string name =
      one_of<std::string>({"A", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "VLLM_CACHE_ROOT",
                           "TORCHINDUCTOR_FX_GRAPH_CACHE", "USER"});
  if (maybe()) {
    return {{"name", name}, {"valueFrom", {{"fieldRef", {{"fieldPath", "metadata.name"}}}}}};
  }
  return {{"name", name},
          {"value",
           one_of<std::string>({"1", "", "/data/x", "/data/x/y", "/other/z", "/tmp",
                                "/compilecache/cache/torch", "relative", "/a/../b", "$(A)/x"})}};
}

json some_mount() {
  json mount = {{"name", one_of<std::string>({"v0", "v1", "kube-api-access-abcde"})},
                {"mountPath", one_of<std::string>({"/data", "/data/x", "/other", "/models",
                                                   "/compilecache", "/dev/shm", "/data/x/y/z"})}};
  if (maybe()) mount["readOnly"] = maybe();
  if (maybe()) mount["subPath"] = "a";
  return mount;
}

json some_security() {
  return one_text_of({R"({})", R"({"runAsUser": 1000})", R"({"runAsUser": 0, "runAsGroup": 0})",
                      R"({"runAsNonRoot": true, "readOnlyRootFilesystem": true})",
                      R"({"privileged": true})"});
}

// Absent, empty, or with up to three of what `make` makes.
template <typename Make>
void put_list(json& object, const char* name, const Make& make) {
  const int count = *rc::gen::inRange(-1, 4);
  if (count < 0) return;
  object[name] = json::array();
  for (int i = 0; i < count; ++i) object[name].push_back(make());
}

json some_container(const std::string& name) {
  json container = {{"name", name}, {"image", one_of<std::string>({"app:7", "vllm/vllm:1"})}};
  put_list(container, "env", some_variable);
  put_list(container, "volumeMounts", some_mount);
  if (maybe()) container["resources"] = some_resources();
  if (maybe()) container["securityContext"] = some_security();
  if (maybe()) container["envFrom"] = json::parse(R"([{"configMapRef": {"name": "s"}}])");
  if (maybe()) container["workingDir"] = one_of<std::string>({"/data/x/app", "/srv"});
  if (maybe()) container["command"] = {"python", one_of<std::string>({"/data/x/main.py", "-c"})};
  return container;
}

json some_annotations() {
  json annotations = {{api::kCacheAnnotation, "transformer"}, {"other", "value"}};
  if (maybe()) {
    annotations[api::kModeAnnotation] =
        one_of<std::string>({"ReadWrite", "ReadOnly", "Refresh", "Disabled", "ForceCold", "Odd"});
  }
  if (maybe()) annotations[api::kOnlyIfUnsetAnnotation] = "true";
  if (maybe()) annotations[api::kStartKitAnnotation] = "true";
  if (maybe()) annotations[api::kDeliveryAnnotation] = "Sidecar";
  if (maybe()) annotations[api::kAfterAnnotation] = one_of<std::string>({"i1", "i2", "later"});
  if (maybe()) {
    annotations[api::kResourcesAnnotation] = one_of<std::string>(
        {"save.limits.memory=1Gi", "load.limits.cpu=2,load.requests.memory=3Gi",
         "save.requests.cpu=10m, load.limits.memory=256Mi, load.limits.ephemeral-storage=1Gi",
         "save.limits.cpu=10m,save.requests.cpu=20m", "load.limits.memory", ""});
  }
  if (maybe()) annotations[api::kContainersAnnotation] = one_of<std::string>({"c0", "c1,c0", "no"});
  if (maybe()) {
    annotations[api::kFrameworksAnnotation] = one_of<std::string>({"torch", "triton,vllm", "cuda"});
  }
  if (maybe()) {
    annotations["cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"] =
        one_of<std::string>({"", "v0", "v0,v1"});
  }
  return annotations;
}

}  // namespace

json some_pod() {
  json pod = {{"metadata", {{"generateName", "web-"}, {"annotations", some_annotations()}}},
              {"spec", {{"terminationGracePeriodSeconds", *rc::gen::inRange(0, 100)}}}};
  if (maybe()) pod["metadata"]["labels"]["app"] = "web";
  json& spec = pod["spec"];
  int number = 0;
  const int containers = *rc::gen::inRange(1, 4);
  for (; number < containers; ++number) {
    spec["containers"].push_back(some_container("c" + std::to_string(number)));
  }
  put_list(spec, "initContainers", [&] {
    json container = some_container("i" + std::to_string(number++));
    if (maybe()) container["restartPolicy"] = "Always";
    return container;
  });
  if (maybe()) {
    for (const char* name : {"v0", "v1"}) {
      json volume = one_text_of({R"({"emptyDir": {}})",
                                 R"({"emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}})",
                                 R"({"hostPath": {"path": "/mnt"}})",
                                 R"({"persistentVolumeClaim": {"claimName": "data"}})"});
      volume["name"] = name;
      spec["volumes"].push_back(volume);
    }
  }
  if (maybe()) spec["securityContext"] = some_security();
  if (maybe()) spec["resources"] = some_resources();
  if (maybe()) spec["hostNetwork"] = true;
  if (maybe()) spec["shareProcessNamespace"] = maybe();
  if (maybe()) spec["nodeSelector"]["gpu"] = "yes";
  if (maybe()) spec["resourceClaims"] = json::parse(R"([{"name": "device"}])");
  spec["restartPolicy"] = one_of<std::string>({"Always", "OnFailure", "Never"});
  return pod;
}

}  // namespace compilecache::webhook::testing
