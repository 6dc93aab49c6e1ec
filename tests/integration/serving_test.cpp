#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "base/random.hpp"
#include "tests/integration/operator_process.hpp"
#include "tests/integration/service.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/pod_load.hpp"
#include "tests/unit/http/certificates.hpp"

// Nobody notices the webhook: a real API server creates pods without a pause, with failurePolicy
// Fail so that every failed call is seen, while certificates rotate and replicas are replaced.

namespace compilecache::testing {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kPodsPerSecond = 50;
constexpr char kCold[] =
    "frameworks: {torch: {coldEnv: {TORCHINDUCTOR_FORCE_DISABLE_CACHES: \"1\"}}}\n";

// The replicas of the webhook behind one Service, which knows those that are ready, a moment late.
class Replicas {
 public:
  explicit Replicas(std::string settings, std::vector<std::string> arguments = {})
      : settings_(std::move(settings)), arguments_(std::move(arguments)) {
    watcher_ = std::thread([this] {
      while (!ending_) {
        service_.set_backends(ready());
        std::this_thread::sleep_for(milliseconds(200));
      }
    });
  }
  ~Replicas() {
    ending_ = true;
    watcher_.join();
    while (!replicas_.empty()) end_oldest();
  }

  [[nodiscard]] uint16_t port() const { return service_.port(); }

  // One more; true once it is ready and the Service has seen that.
  bool add() {
    auto replica = std::make_shared<OperatorProcess>(
        settings_, OperatorProcessOptions{.more_arguments = arguments_});
    {
      const std::lock_guard lock(mutex_);
      replicas_.push_back(replica);
    }
    const bool ready = eventually(seconds(60), [&] { return replica->ready(); });
    if (!ready) std::cerr << replica->log();
    std::this_thread::sleep_for(milliseconds(400));
    return ready;
  }

  // Whether every replica has logged that so often.
  bool logged(const std::string& text, int times) {
    const std::lock_guard lock(mutex_);
    return std::all_of(replicas_.begin(), replicas_.end(), [&](const auto& replica) {
      const std::string log = replica->log();
      int found = 0;
      for (size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1))
        ++found;
      return found >= times;
    });
  }

  // Ends the oldest as the kubelet does; its exit status.
  int end_oldest() {
    std::shared_ptr<OperatorProcess> oldest;
    {
      const std::lock_guard lock(mutex_);
      oldest = replicas_.front();
    }
    const int status = oldest->end();
    const std::lock_guard lock(mutex_);
    replicas_.remove(oldest);
    return status;
  }

 private:
  std::set<uint16_t> ready() {
    std::list<std::shared_ptr<OperatorProcess>> replicas;
    {
      const std::lock_guard lock(mutex_);
      replicas = replicas_;
    }
    std::set<uint16_t> ports;
    for (const auto& replica : replicas) {
      if (replica->ready()) ports.insert(replica->webhook_port());
    }
    return ports;
  }

  const std::string settings_;
  const std::vector<std::string> arguments_;
  LoopbackService service_;
  std::mutex mutex_;  // guards replicas_
  std::list<std::shared_ptr<OperatorProcess>> replicas_;
  std::atomic<bool> ending_{false};
  std::thread watcher_;
};

class Serving : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(install_operator(), "");
    // Nobody waits for the lease of a test before this.
    kubectl({"delete", "lease", "compilecache-operator", "-n", kOperatorNamespace});
    ns_ = "serving-" + random_id(system_random()).substr(0, 8);
    make_namespace(ns_);
  }
  // For the tests that come after: no pod is sent anywhere.
  void TearDown() override {
    kubectl({"delete", "service", api::kWebhookService, "-n", kOperatorNamespace});
    EXPECT_EQ(install_operator(), "");
    kubectl({"delete", "namespace", ns_, "--wait=false"});
  }

  // Our namespace's pods go to that port by way of the Service's name, which the certificate is
  // for.
  void send_pods_to(uint16_t port) const {
    kubectl({"delete", "service", api::kWebhookService, "-n", kOperatorNamespace});
    ASSERT_EQ(
        apply({{"apiVersion", "v1"},
               {"kind", "Service"},
               {"metadata", {{"name", api::kWebhookService}, {"namespace", kOperatorNamespace}}},
               {"spec", {{"type", "ExternalName"}, {"externalName", "localhost"}}}}),
        "");
    const json patch = json::array(
        {{{"op", "replace"}, {"path", "/webhooks/0/failurePolicy"}, {"value", "Fail"}},
         {{"op", "replace"}, {"path", "/webhooks/0/clientConfig/service/port"}, {"value", port}},
         {{"op", "replace"},
          {"path", "/webhooks/0/namespaceSelector"},
          {"value", {{"matchLabels", {{"kubernetes.io/metadata.name", ns_}}}}}}});
    const auto patched = kubectl({"patch", "mutatingwebhookconfiguration", "compilecache",
                                  "--type=json", "-p", patch.dump()});
    ASSERT_EQ(patched.exit_code, 0) << patched.err;
  }

  // Forced cold, so that it is injected without a volume: one variable.
  json pod() const {
    return {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata",
         {{"generateName", "app-"},
          {"namespace", ns_},
          {"annotations", {{api::kCacheAnnotation, "x"}, {api::kModeAnnotation, "ForceCold"}}}}},
        {"spec",
         {{"containers", json::array({{{"name", "app"}, {"image", "example.com/app:1"}}})}}}};
  }
  static bool is_injected(const json& pod) {
    return at(pod, "/spec/containers/0/env/0/name") == "TORCHINDUCTOR_FORCE_DISABLE_CACHES";
  }

  // Until the API server has seen the configuration and the leader has written caBundle.
  bool first_pod_is_injected() const {
    const kube::Client client = client_of_kubeconfig();
    return eventually(seconds(30), [&] {
      const auto created = client.create(kube::resources::kPods, pod());
      return created && is_injected(*created);
    });
  }

  static void expect_unnoticed(const PodLoadResult& result) {
    EXPECT_EQ(result.refused, 0) << result.first_problem;
    EXPECT_EQ(result.uninjected, 0) << result.first_problem;
    EXPECT_GT(result.created, 0);
    std::cout << result.created << " pods were created, the slowest in " << result.slowest_seconds
              << " s\n";
  }

  static json secret() {
    return at(read({"secret", "compilecache-certificates", "-n", kOperatorNamespace}), "/data");
  }

  std::string ns_;
};

TEST_F(Serving, BothReplicasAreReplacedTwice) {
  Replicas replicas(kCold);
  ASSERT_TRUE(replicas.add() && replicas.add());
  send_pods_to(replicas.port());
  ASSERT_TRUE(first_pod_is_injected());
  PodLoad load(client_of_kubeconfig(), pod(), kPodsPerSecond, is_injected);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(replicas.add());
    EXPECT_EQ(replicas.end_oldest(), 0);
  }
  expect_unnoticed(load.stop());
}

TEST_F(Serving, CertificateAndAuthorityRotate) {
  // Lives of seconds; another test's authority of ten years goes first.
  kubectl({"delete", "secret", "compilecache-certificates", "-n", kOperatorNamespace});
  Replicas replicas(std::string(kCold) + "certificates: {authorityLife: 40s, leafLife: 5s}");
  ASSERT_TRUE(replicas.add() && replicas.add());
  send_pods_to(replicas.port());
  ASSERT_TRUE(first_pod_is_injected());
  const json first = secret();
  std::set<std::string> leaves;
  PodLoad load(client_of_kubeconfig(), pod(), kPodsPerSecond, is_injected);
  // The first authority has ended and nobody trusts it any more.
  EXPECT_TRUE(eventually(seconds(90), [&] {
    const json now = secret();
    leaves.insert(now.value("tls.crt", ""));
    return now.value("ca.crt", "") != first.at("ca.crt") && !now.contains("previous-ca.crt");
  }));
  expect_unnoticed(load.stop());
  EXPECT_GE(leaves.size(), 5U);
  kubectl({"delete", "secret", "compilecache-certificates", "-n", kOperatorNamespace});
}

// As cert-manager does it: somebody else renews the files and writes caBundle.
class MountedCertificate {
 public:
  MountedCertificate() { folder_ = ::mkdtemp(name_.data()); }
  ~MountedCertificate() { std::filesystem::remove_all(folder_); }
  MountedCertificate(const MountedCertificate&) = delete;
  MountedCertificate& operator=(const MountedCertificate&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }

  // As the kubelet mounts a Secret: links into a folder, which is replaced in one step.
  void replace(const http::testing::TestCa& authority) {
    const std::string data = folder_ + "/..data-" + std::to_string(++version_);
    std::filesystem::create_directory(data);
    const auto pair =
        authority.issue(std::string(api::kWebhookService) + "." + kOperatorNamespace + ".svc");
    std::ofstream(data + "/tls.crt") << pair.certificate_pem;
    std::ofstream(data + "/tls.key") << pair.key_pem;
    std::ofstream(data + "/ca.crt") << authority.pem();
    std::filesystem::create_symlink(data, folder_ + "/..next");
    std::filesystem::rename(folder_ + "/..next", folder_ + "/..data");
    if (version_ > 1) return;
    for (const char* file : {"tls.crt", "tls.key", "ca.crt"}) {
      std::filesystem::create_symlink("..data/" + std::string(file), folder_ + "/" + file);
    }
  }

 private:
  std::string name_ = "/tmp/mounted-certificate-XXXXXX";
  std::string folder_;
  int version_ = 0;
};

TEST_F(Serving, ACertificateOfSomebodyElseIsServedAndReplaced) {
  const http::testing::TestCa first("first"), second("second");
  MountedCertificate mounted;
  mounted.replace(first);
  const auto write_bundle = [](const std::string& bundle) {
    const json patch = json::array({{{"op", "add"},
                                     {"path", "/webhooks/0/clientConfig/caBundle"},
                                     {"value", base64_encode(bundle)}}});
    EXPECT_EQ(kubectl({"patch", "mutatingwebhookconfiguration", "compilecache", "--type=json", "-p",
                       patch.dump()})
                  .exit_code,
              0);
  };
  kubectl({"delete", "secret", "compilecache-certificates", "-n", kOperatorNamespace});
  Replicas replicas(kCold, {"--certificates", mounted.folder()});
  ASSERT_TRUE(replicas.add());
  send_pods_to(replicas.port());
  write_bundle(first.pem());
  ASSERT_TRUE(first_pod_is_injected());
  PodLoad load(client_of_kubeconfig(), pod(), kPodsPerSecond, is_injected);
  write_bundle(first.pem() + second.pem());
  std::this_thread::sleep_for(seconds(2));
  mounted.replace(second);
  // Until the files have been read again; then the first authority is not needed any more.
  EXPECT_TRUE(
      eventually(seconds(60), [&] { return replicas.logged("serving another certificate", 2); }));
  write_bundle(second.pem());
  std::this_thread::sleep_for(seconds(2));
  expect_unnoticed(load.stop());
  EXPECT_TRUE(secret().is_null()) << "no authority of our own";
  const json configuration = read({"mutatingwebhookconfiguration", "compilecache"});
  EXPECT_EQ(at(configuration, "/webhooks/0/clientConfig/caBundle"), base64_encode(second.pem()));
  const json path = at(configuration, "/webhooks/0/clientConfig/service/path");
  EXPECT_TRUE(path.is_string() && path.get<std::string>().starts_with("/mutate/")) << path;
}

}  // namespace
}  // namespace compilecache::testing
