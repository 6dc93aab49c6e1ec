#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "tests/e2e/installation.hpp"
#include "tests/e2e/saver_work.hpp"
#include "tests/support/left_out.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

// The installation's own registry as a whole: killed, emptied, upgraded, and asked by somebody who
// may not.

namespace compilecache::e2e {
namespace {

constexpr char kRegistryDeployment[] = "compilecache-registry";
// An older release (tests/cluster/versions).
constexpr char kImageBefore[] = "docker.io/library/registry:3.0";

class Registry : public Sandbox {
 protected:
  // Before the sandbox asks where archives are kept.
  Registry() { ::setenv("CC_E2E_STORE", "registry", 1); }

  static void scale_registry(int replicas) {
    const auto scaled = kubectl({"scale", "deployment", kRegistryDeployment, "-n",
                                 kOperatorNamespace, "--replicas=" + std::to_string(replicas)});
    ASSERT_EQ(scaled.exit_code, 0) << scaled.err;
    ASSERT_TRUE(eventually(seconds(120), [&] {
      const json deployment =
          get_json({"deployment", kRegistryDeployment, "-n", kOperatorNamespace});
      return deployment["status"].value("readyReplicas", 0) == replicas &&
             pods_of_registry().size() == static_cast<size_t>(replicas);
    }));
  }

  static std::vector<std::string> pods_of_registry() {
    std::istringstream names(kubectl({"get", "pods", "-n", kOperatorNamespace, "-o", "name", "-l",
                                      std::string("app.kubernetes.io/name=") + kRegistryDeployment})
                                 .out);
    std::vector<std::string> all;
    for (std::string name; names >> name;) all.push_back(name);
    return all;
  }

  static std::string registry_image() {
    return at(get_json({"deployment", kRegistryDeployment, "-n", kOperatorNamespace}),
              "/spec/template/spec/containers/0/image");
  }
  // Asks for a new pod, as people do who upgrade, and does not wait for it.
  static void change_registry_image(const std::string& image) {
    const auto changed =
        kubectl({"set", "image", std::string("deployment/") + kRegistryDeployment, "-n",
                 kOperatorNamespace, "collect=" + image, "registry=" + image});
    ASSERT_EQ(changed.exit_code, 0) << changed.err;
  }

  // SIGKILL to the process on the node. The pod goes too, since the kubelet waits longer with each
  // restart of a container.
  static void kill_registry() {
    const auto found = testing::run_process({"pgrep", "-f", "^registry serve /etc/distribution/"});
    std::istringstream pids(found.out);
    for (pid_t process = 0; pids >> process;) ::kill(process, SIGKILL);
    for (const std::string& name : pods_of_registry()) {
      kubectl({"delete", name, "-n", kOperatorNamespace, "--grace-period=0", "--force"});
    }
  }

  // As their containers see it: started once, and the loader said that all is well.
  void expect_started_at_once(const std::string& name) const {
    const json now = pod(name);
    EXPECT_EQ(at(now, "/status/containerStatuses/0/restartCount"), 0) << now["status"];
    for (const json& status : at(now, "/status/initContainerStatuses")) {
      if (status["name"] != "compilecache-load") continue;
      EXPECT_EQ(at(status, "/state/terminated/exitCode"), 0) << status;
      EXPECT_EQ(status["restartCount"], 0) << status;
    }
  }
};

TEST_F(Registry, ThatLostItsVolumeMeansColdOnceAndIsFilledAgain) {
  save_one();
  const int before = at(archives().front(), "/status/head/generation");
  scale_registry(0);
  ASSERT_FALSE(place().blobs("transformer").empty());
  std::filesystem::remove_all(std::string(std::getenv("CC_VOLUMES")) + "/registry/docker");
  scale_registry(1);

  EXPECT_GE(at(run_to_ready({"two", {}}), "/misses").get<int>(), 1);
  expect_started_at_once("two");
  // Of a head younger than a minute, a sweep takes nothing for lost.
  wait_for_save(before + 1, "", seconds(240));
  remove_pod("two");
  EXPECT_EQ(at(run_to_ready({"three", {}}), "/misses"), 0) << logs("three", "compilecache-load");
}

TEST_F(Registry, ThatIsKilledAgainAndAgainLeavesPodsColdAtWorst) {
  if (testing::left_out("CC_E2E_LONG", "takes minutes")) return;
  save_one();
  std::atomic<bool> enough = false;
  std::thread killer([&] {
    std::mt19937 random(17);
    while (!enough) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3000 + random() % 9000));
      kill_registry();
    }
  });
  int saver_kills = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string name = "pod-" + std::to_string(round);
    const json result = run_to_ready({name, {"--shapes", std::to_string(8 + 8 * round)}});
    EXPECT_FALSE(result.is_null());
    expect_started_at_once(name);
    if (round % 2 == 1 && kill_saver(pod(name), SaverProcess::kWork)) ++saver_kills;
    EXPECT_TRUE(is_ready(pod(name)));
    remove_pod(name);
  }
  enough = true;
  killer.join();
  EXPECT_GT(saver_kills, 0);
  scale_registry(1);

  // A head's blobs are there, so a pod that compiles no more than the first did is warm.
  EXPECT_EQ(at(run_to_ready({"later", {}}), "/misses"), 0) << logs("later", "compilecache-load");
  EXPECT_FALSE(archived_files(archives().front()).empty());
}

// The operator restarts it, as it does for a collection, while pods start one after the other.
TEST_F(Registry, ServesLoadsWhileItIsCollected) {
  save_one();
  const std::string reader = std::string(kRegistryDeployment) + "-reader";
  const auto told = [] {
    return at(get_json({"deployment", kRegistryDeployment, "-n", kOperatorNamespace}),
              "/spec/template/metadata/annotations/compilecache.dev~1started");
  };
  const auto of_reader = [&] { return get_json({"deployment", reader, "-n", kOperatorNamespace}); };
  const json before = told();
  const std::time_t now = std::time(nullptr);
  char asked[32];
  std::strftime(asked, sizeof(asked), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  const auto annotated =
      kubectl({"annotate", "deployment", reader, "-n", kOperatorNamespace, "--overwrite",
               std::string("compilecache.dev/restart-requested=") + asked});
  ASSERT_EQ(annotated.exit_code, 0) << annotated.err;
  ASSERT_TRUE(
      eventually(seconds(90), [&] { return of_reader()["status"].value("readyReplicas", 0) == 1; }))
      << "no second pod: " << of_reader()["status"];
  const auto is_over = [&] { return told() != before && at(of_reader(), "/spec/replicas") == 0; };
  for (int pods = 0; pods == 0 || !is_over(); ++pods) {
    ASSERT_LT(pods, 30) << of_reader()["status"];
    const std::string name = "pod-" + std::to_string(pods);
    EXPECT_EQ(at(run_to_ready({name, {}}), "/misses"), 0) << logs(name, "compilecache-load");
    expect_started_at_once(name);
    remove_pod(name);
  }
  wait_for_registry();
  EXPECT_EQ(at(run_to_ready({"afterwards", {}}), "/misses"), 0);
}

class UpgradedRegistry : public Registry {
 protected:
  void SetUp() override {
    Registry::SetUp();
    image_ = registry_image();
    change_registry_image(kImageBefore);
    wait_for_registry();
  }
  void TearDown() override {
    change_registry_image(image_);
    wait_for_registry();
    Registry::TearDown();
  }

  std::string image_;
};

TEST_F(UpgradedRegistry, AndOneThatIsPutBackServesWhatTheOtherWrote) {
  save_one();

  change_registry_image(image_);
  // Its start meets a registry that is going.
  EXPECT_FALSE(run_to_ready({"meanwhile", {}}).is_null());
  expect_started_at_once("meanwhile");
  remove_pod("meanwhile");
  wait_for_registry();
  EXPECT_EQ(at(run_to_ready({"upgraded", {}}), "/misses"), 0)
      << logs("upgraded", "compilecache-load");
  remove_pod("upgraded");
  const int before = at(archives().front(), "/status/head/generation");
  EXPECT_GE(at(run_to_ready({"more", {"--shapes", "16"}}), "/misses").get<int>(), 1);
  wait_for_save(before + 1);
  remove_pod("more");

  change_registry_image(kImageBefore);
  wait_for_registry();
  EXPECT_EQ(at(run_to_ready({"back", {"--shapes", "16"}}), "/misses"), 0)
      << logs("back", "compilecache-load");
  expect_started_at_once("back");
}

// Two namespaces, each with a CompileCache of its own in the same registry.
TEST_F(Registry, ShowsNoNamespaceWhatIsAnothers) {
  save_one();
  const json archive = archives().front();
  const std::string manifest_digest = at(archive, "/status/head/manifestDigest");
  const json head = json::parse(std::ifstream(blob_path(manifest_digest)));

  const std::string other = ns() + "-attacker";
  ASSERT_EQ(testing::apply(
                {{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", {{"name", other}}}}),
            "");
  json cache_there = cache();
  cache_there["metadata"] = {{"name", "mine"}, {"namespace", other}};
  cache_there.erase("status");
  ASSERT_EQ(testing::apply(cache_there), "");
  create_files("attack", {testing::in_tree("tests/e2e/registry_attack.py")});
  const json script = get_json({"configmap", "attack", "-n", ns()});
  ASSERT_EQ(testing::apply({{"apiVersion", "v1"},
                            {"kind", "ConfigMap"},
                            {"metadata", {{"name", "attack"}, {"namespace", other}}},
                            {"data", script["data"]}}),
            "");
  ASSERT_TRUE(eventually(seconds(120), [&] {
    const json found = get_json({"cc", "mine", "-n", other});
    for (const json& condition : at(found, "/status/conditions")) {
      if (condition["type"] == "Ready") return condition["status"] == "True";
    }
    return false;
  }));

  json attacker = manifest({"attacker", {}, "mine"});
  attacker["metadata"]["namespace"] = other;
  json& container = attacker["spec"]["containers"][0];
  container["command"] = {"sleep", "600"};
  container["volumeMounts"] = {{{"name", "attack"}, {"mountPath", "/attack"}},
                               {{"name", "token"}, {"mountPath", "/var/run/attack"}}};
  attacker["spec"]["volumes"] = {
      {{"name", "attack"}, {"configMap", {{"name", "attack"}}}},
      {{"name", "token"},
       {"projected",
        {{"sources",
          {{{"serviceAccountToken",
             {{"path", "token"}, {"audience", "compilecache.dev/operator"}}}}}}}}}};
  ASSERT_EQ(testing::apply(attacker), "");
  ASSERT_EQ(
      kubectl({"wait", "pod/attacker", "-n", other, "--for=condition=Ready", "--timeout=120s"})
          .exit_code,
      0);
  const auto address = [](const std::string& service, const std::string& port) {
    return at(get_json({"service", service, "-n", kOperatorNamespace}), "/spec/clusterIP")
               .get<std::string>() +
           ":" + port;
  };
  const auto tried = kubectl(
      {"exec", "attacker", "-n", other, "-c", "app", "--", "python3", "/attack/registry_attack.py",
       address("compilecache-agent-api", "443"), address(kRegistryDeployment, "5000"),
       other + "/mine", ns() + "/transformer", manifest_digest, at(head, "/layers/0/digest")});
  kubectl({"delete", "namespace", other, "--wait=false"});
  ASSERT_EQ(tried.exit_code, 0) << tried.err;
  const json told = json::parse(tried.out);
  const json expected = {
      {"a pod's token opens", {{other + "/mine", {"pull", "push"}}}},
      {"a pod as a person", 401},
      {"an account as a person", json::object()},
      {"own upload", 202},
      {"their manifest", 401},
      {"their layer", 401},
      {"whether their layer is there", 401},
      {"their tags", 401},
      {"upload to them", 401},
      {"delete their manifest", 401},
      {"all repositories", 401},
      {"mount their layer", 401},
      {"their layer by its digest", 404},
      {"their manifest by its digest", 404},
      {"a manifest that names their layer", 400},
      {"their layer through that manifest", 404},
      {"with the pod's own token", 401},
      {"with the account's token", 401},
  };
  for (const auto& [what, status] : expected.items()) EXPECT_EQ(told[what], status) << what;
  EXPECT_EQ(told.size(), expected.size()) << told;
}

}  // namespace
}  // namespace compilecache::e2e
