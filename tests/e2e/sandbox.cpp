#include "tests/e2e/sandbox.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/random.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::e2e {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string torch_image() {
  const char* image = std::getenv("CC_TORCH_IMAGE");
  return image == nullptr ? "docker.io/local/torch:2.6" : image;
}

std::string volumes_root() {
  const char* root = std::getenv("CC_VOLUMES");
  return root == nullptr ? "/var/tmp/compilecache-e2e" : root;
}

// A name for the namespace with that of its test.
std::string namespace_name() {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return "e2e-" + name.substr(0, 40) + "-" + random_id(system_random()).substr(0, 5);
}

json claim(const std::string& ns, const std::string& path) {
  return {
      {"apiVersion", "v1"},
      {"kind", "List"},
      {"items",
       {{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", ns}}}},
        {{"apiVersion", "v1"},
         {"kind", "PersistentVolume"},
         {"metadata", {{"name", ns}}},
         {"spec",
          {{"capacity", {{"storage", "10Gi"}}},
           {"accessModes", {"ReadWriteMany"}},
           {"persistentVolumeReclaimPolicy", "Retain"},
           {"storageClassName", ""},
           {"claimRef", {{"namespace", ns}, {"name", "caches"}}},
           {"hostPath", {{"path", path}, {"type", "Directory"}}}}}},
        {{"apiVersion", "v1"},
         {"kind", "PersistentVolumeClaim"},
         {"metadata", {{"name", "caches"}, {"namespace", ns}}},
         {"spec",
          {{"accessModes", {"ReadWriteMany"}},
           {"storageClassName", ""},
           {"volumeName", ns},
           {"resources", {{"requests", {{"storage", "10Gi"}}}}}}}},
        {{"apiVersion", "v1"},
         {"kind", "ConfigMap"},
         {"metadata", {{"name", "app"}, {"namespace", ns}}},
         {"data", {{"torch_app.py", read_file(testing::in_tree("tests/e2e/torch_app.py"))}}}}}}};
}

}  // namespace

std::string next_torch_image() {
  const char* image = std::getenv("CC_NEXT_TORCH_IMAGE");
  return image == nullptr ? "docker.io/local/torch:next" : image;
}

void Sandbox::SetUp() {
  namespace_ = namespace_name();
  volume_ = make_volume();
  ASSERT_EQ(testing::apply(claim(namespace_, volume_)), "");
}

std::string Sandbox::make_volume() const {
  const std::string folder = volumes_root() + "/" + namespace_;
  fs::create_directories(folder);
  return folder;
}

void Sandbox::TearDown() {
  if (HasFailure()) dump();
  kubectl({"delete", "namespace", namespace_, "--wait=false"});
  // The node is free then; the end of the namespace is checked once, after all tests.
  const auto deleted =
      kubectl({"delete", "pods", "--all", "-n", namespace_, "--grace-period=1", "--timeout=60s"});
  EXPECT_EQ(deleted.exit_code, 0) << deleted.err;
  kubectl({"delete", "pv", namespace_, "--wait=false"});
  fs::remove_all(volume_);
}

void Sandbox::dump() const {
  std::cerr << "---- what is in " << namespace_ << "\n"
            << kubectl({"get", "cc,cca,jobs,pods,events", "-n", namespace_, "-o", "wide"}).out
            << kubectl({"get", "cc", "-n", namespace_, "-o", "yaml"}).out;
  const json pods = get_json({"pods", "-n", namespace_});
  for (const json& item : pods.is_object() ? pods.value("items", json::array()) : json::array()) {
    const std::string name = at(item, "/metadata/name");
    std::cerr << "---- logs of " << name << "\n"
              << kubectl(
                     {"logs", name, "-n", namespace_, "--all-containers", "--prefix", "--tail=40"})
                     .out;
  }
  std::cerr << "---- logs of the operator\n"
            << kubectl({"logs", "-n", kOperatorNamespace, "-l",
                        "app.kubernetes.io/name=compilecache-operator", "--prefix", "--tail=60"})
                   .out;
}

void Sandbox::create_cache(const std::string& name, const json& spec) {
  json object{{"apiVersion", "compilecache.dev/v1alpha1"},
              {"kind", "CompileCache"},
              {"metadata", {{"name", name}, {"namespace", namespace_}}},
              {"spec",
               {{"storage", place().storage()},
                {"save", {{"quietPeriod", "3s"}, {"lockTimeout", "10s"}}}}}};
  if (const char* delivery = std::getenv("CC_E2E_DELIVERY")) object["spec"]["delivery"] = delivery;
  object["spec"].merge_patch(spec);
  ASSERT_EQ(testing::apply(object), "");
}

void Sandbox::wait_until_ready(const std::string& cache) {
  const auto waited =
      kubectl({"wait", "--for=condition=Ready", "cc/" + cache, "-n", namespace_, "--timeout=60s"});
  ASSERT_EQ(waited.exit_code, 0) << waited.err;
}

json Sandbox::manifest(const TorchPod& pod) const {
  json command{"python3", "/app/torch_app.py"};
  for (const std::string& argument : pod.arguments) command.push_back(argument);
  json container{{"name", "app"},
                 {"image", pod.image.empty() ? torch_image() : pod.image},
                 {"imagePullPolicy", "IfNotPresent"},
                 {"command", command},
                 {"env", pod.environment},
                 {"volumeMounts", {{{"name", "app"}, {"mountPath", "/app"}}}}};
  if (pod.gpus > 0) {
    container["resources"]["limits"]["nvidia.com/gpu"] = std::to_string(pod.gpus);
  }
  json object{{"apiVersion", "v1"},
              {"kind", "Pod"},
              {"metadata",
               {{"name", pod.name}, {"namespace", namespace_}, {"annotations", pod.annotations}}},
              {"spec",
               {{"containers", {container}},
                {"terminationGracePeriodSeconds", 20},
                {"volumes", {{{"name", "app"}, {"configMap", {{"name", "app"}}}}}}}}};
  if (!pod.cache.empty()) object["metadata"]["annotations"]["compilecache.dev/cache"] = pod.cache;
  if (!pod.security_context.is_null()) object["spec"]["securityContext"] = pod.security_context;
  return object;
}

void Sandbox::start(const TorchPod& pod) { ASSERT_EQ(testing::apply(manifest(pod)), ""); }

json Sandbox::wait_for_result(const std::string& pod, seconds limit) {
  json result;
  eventually(limit, [&] {
    std::istringstream lines(logs(pod, "app"));
    for (std::string line; std::getline(lines, line);) {
      const json parsed = json::parse(line, nullptr, false);
      if (parsed.is_object() && parsed.value("phase", "") == "ready") result = parsed;
    }
    return !result.is_null();
  });
  EXPECT_FALSE(result.is_null()) << "pod " << pod << " did not get ready";
  return result;
}

json Sandbox::run_to_ready(const TorchPod& pod, seconds limit) {
  start(pod);
  return wait_for_result(pod.name, limit);
}

void Sandbox::save_one() {
  create_cache();
  wait_until_ready();
  run_to_ready({"one", {}});
  wait_for_save();
  remove_pod("one");
}

void Sandbox::remove_pod(const std::string& pod) {
  const auto deleted = kubectl({"delete", "pod", pod, "-n", namespace_, "--timeout=60s"});
  EXPECT_EQ(deleted.exit_code, 0) << deleted.err;
}

std::vector<json> Sandbox::archives() const {
  const json list = get_json({"cca", "-n", namespace_});
  std::vector<json> all;
  if (list.is_object()) {
    for (const json& item : list.value("items", json::array())) all.push_back(item);
  }
  return all;
}

json Sandbox::wait_for_save(int generation, const std::string& product, seconds limit) {
  json found;
  eventually(limit, [&] {
    for (const json& archive : archives()) {
      const json label = at(archive, "/metadata/labels/compilecache.dev~1gpu-product");
      if (!product.empty() && label != product) continue;
      if (at(archive, "/status/head/generation").is_number() &&
          at(archive, "/status/head/generation").get<int>() >= generation) {
        found = archive;
      }
    }
    return !found.is_null();
  });
  EXPECT_FALSE(found.is_null()) << "no archive of generation " << generation << " " << product;
  return found;
}

std::set<std::string> Sandbox::layers_of(const json& archive) const {
  std::set<std::string> layers;
  const json digest = at(archive, "/status/head/manifestDigest");
  if (!digest.is_string()) return layers;
  const json manifest =
      json::parse(read_file(blob_path(digest, at(archive, "/spec/cache"))), nullptr, false);
  EXPECT_TRUE(manifest.is_object()) << "there is no blob " << digest;
  if (!manifest.is_object()) return layers;
  for (const json& layer : manifest.value("layers", json::array())) {
    layers.insert(layer.value("digest", ""));
  }
  return layers;
}

std::set<std::string> Sandbox::archived_files(const json& archive) const {
  std::set<std::string> files;
  for (const std::string& layer : layers_of(archive)) {
    const auto listed = testing::run_process(
        {"tar", "--zstd", "-tf", blob_path(layer, at(archive, "/spec/cache"))});
    EXPECT_EQ(listed.exit_code, 0) << listed.err;
    std::istringstream lines(listed.out);
    for (std::string line; std::getline(lines, line);) {
      if (!line.ends_with('/')) files.insert(line);
    }
  }
  return files;
}

json Sandbox::explain(const std::string& pod) const {
  const auto told = testing::run_process({testing::in_build("cli/kubectl-compilecache"), "explain",
                                          pod, "-n", namespace_, "-o", "json"});
  EXPECT_EQ(told.exit_code, 0) << told.err;
  return json::parse(told.out, nullptr, false);
}

std::string Sandbox::metrics() {
  return kubectl({"get", "--raw",
                  std::string("/api/v1/namespaces/") + kOperatorNamespace + "/pods/" +
                      leader_pod() + ":8080/proxy/metrics"})
      .out;
}

std::string Sandbox::logs(const std::string& pod, const std::string& container) const {
  return kubectl({"logs", pod, "-c", container, "-n", namespace_}).out;
}

std::string Sandbox::exec(const std::string& pod, const std::vector<std::string>& command) const {
  std::vector<std::string> arguments{"exec", pod, "-n", namespace_, "-c", "app", "--"};
  arguments.insert(arguments.end(), command.begin(), command.end());
  const auto result = kubectl(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  return result.out;
}

void Sandbox::create_files(const std::string& name, const std::vector<std::string>& paths) const {
  std::vector<std::string> arguments{"create", "configmap", name, "-n", namespace_};
  for (const std::string& path : paths) arguments.push_back("--from-file=" + path);
  const auto created = kubectl(arguments);
  ASSERT_EQ(created.exit_code, 0) << created.err;
}

void Sandbox::mount_files(json& pod, const std::string& name) {
  pod["spec"]["volumes"].push_back({{"name", name}, {"configMap", {{"name", name}}}});
  pod["spec"]["containers"][0]["volumeMounts"].push_back(
      {{"name", name}, {"mountPath", "/" + name}});
}

namespace {

json operator_replicas() {
  const json list = get_json(
      {"pods", "-n", kOperatorNamespace, "-l", "app.kubernetes.io/name=compilecache-operator"});
  return list.is_object() ? list.value("items", json::array()) : json::array();
}

}  // namespace

std::vector<std::string> operator_pods() {
  std::vector<std::string> names;
  for (const json& item : operator_replicas()) {
    if (!item["metadata"].contains("deletionTimestamp"))
      names.push_back(at(item, "/metadata/name"));
  }
  return names;
}

bool operator_is_gone() { return operator_replicas().empty(); }

std::string leader_pod() {
  const json lease = get_json({"lease", kOperatorDeployment, "-n", kOperatorNamespace});
  const json holder = at(lease, "/spec/holderIdentity");
  if (!holder.is_string()) return "";
  const std::string identity = holder;
  return identity.substr(0, identity.find('_'));
}

std::string operator_logs() {
  return kubectl({"logs", "-n", kOperatorNamespace, "-l",
                  "app.kubernetes.io/name=compilecache-operator", "--tail=-1"})
      .out;
}

void wait_for_operator() {
  const auto rolled = kubectl({"rollout", "status", "deployment/compilecache-operator", "-n",
                               kOperatorNamespace, "--timeout=90s"},
                              "", seconds(100));
  ASSERT_EQ(rolled.exit_code, 0) << rolled.err;
  ASSERT_TRUE(eventually(seconds(40), [] {
    const auto pods = operator_pods();
    return std::find(pods.begin(), pods.end(), leader_pod()) != pods.end();
  })) << "no replica leads";
}

}  // namespace compilecache::e2e
