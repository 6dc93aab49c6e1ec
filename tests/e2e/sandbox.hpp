#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/e2e/place.hpp"
#include "tests/support/kubectl.hpp"

// A namespace with a place for archives on the real cluster, for one test. The cluster and the
// operator are there already (tests/run.sh e2e starts them); everything made here is taken away at
// the end, and what a failed test left is printed first.

namespace compilecache::e2e {

using nlohmann::json;
using std::chrono::seconds;
using testing::at;
using testing::eventually;
using testing::get_json;
using testing::kubectl;

inline constexpr char kOperatorNamespace[] = "compilecache-system";
inline constexpr char kOperatorDeployment[] = "compilecache-operator";

// One pod that runs tests/e2e/torch_app.py.
struct TorchPod {
  std::string name;
  std::vector<std::string> arguments;
  std::string cache = "transformer";  // empty: without the annotation
  json annotations = json::object();
  int gpus = 0;
  json security_context;  // of the pod
  json environment = json::array();
  std::string image;  // empty: the one with torch 2.6
};
// The name of an image with a newer torch, Python's package redis and a Redis server.
std::string next_torch_image();

class Sandbox : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  // A folder for the claim's volume; empty.
  virtual std::string make_volume() const;

  // Namespace, claim "caches" on a directory of this machine, and the ConfigMap with torch_app.py.
  [[nodiscard]] const std::string& ns() const { return namespace_; }
  [[nodiscard]] const std::string& volume() const { return volume_; }

  // Creates a CompileCache that keeps its archives in place(); `spec` is merged over quick settings
  // for tests.
  void create_cache(const std::string& name = "transformer", const json& spec = json::object());
  // For what is asked of a volume alone, wherever the archives of the other tests are.
  static json on_the_claim() { return {{"storage", {{"claimName", "caches"}}}}; }
  void wait_until_ready(const std::string& cache = "transformer");

  // As the API server gets it from a user.
  [[nodiscard]] json manifest(const TorchPod& pod) const;
  void start(const TorchPod& pod);
  // Waits for the line that torch_app.py prints in the container "app"; null when it does not come.
  json wait_for_result(const std::string& pod, seconds limit = seconds(180));
  json run_to_ready(const TorchPod& pod, seconds limit = seconds(180));
  void remove_pod(const std::string& pod);
  // A CompileCache with one archive, of a deleted pod "one".
  void save_one();

  json pod(const std::string& name) const { return get_json({"pod", name, "-n", namespace_}); }
  json cache(const std::string& name = "transformer") const {
    return get_json({"cc", name, "-n", namespace_});
  }
  // All CompileCacheArchives of the namespace.
  std::vector<json> archives() const;
  // Waits until some archive of that GPU product has a head of at least that generation.
  json wait_for_save(int generation = 1, const std::string& product = "",
                     seconds limit = seconds(90));

  // Files in the archive's head, read from where they are kept with tar.
  std::set<std::string> archived_files(const json& archive) const;
  // The digests of its head's layers.
  std::set<std::string> layers_of(const json& archive) const;
  Place place() const { return {namespace_, volume_}; }
  std::string blob_path(const std::string& digest, const std::string& cache = "transformer") const {
    return place().blob(cache, digest);
  }

  // What `kubectl compilecache explain POD -o json` tells.
  json explain(const std::string& pod) const;
  // The leader's metrics, or nothing.
  static std::string metrics();
  std::string logs(const std::string& pod, const std::string& container) const;
  // The command's output in the pod's container "app"; it must succeed.
  std::string exec(const std::string& pod, const std::vector<std::string>& command) const;
  // A ConfigMap of that name with these files.
  void create_files(const std::string& name, const std::vector<std::string>& paths) const;
  // Mounts such a ConfigMap into the pod's first container, at /NAME.
  static void mount_files(json& pod, const std::string& name);

 private:
  void dump() const;

  std::string namespace_;
  std::string volume_;
};

// The operator's replicas that are not on their way out.
std::vector<std::string> operator_pods();
// Whether the last of them has ended; a terminating one still serves for a while.
bool operator_is_gone();
std::string leader_pod();
std::string operator_logs();
void wait_for_operator();

}  // namespace compilecache::e2e
