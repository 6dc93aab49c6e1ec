#include "tests/e2e/installation.hpp"

#include <cstdlib>

#include "tests/support/paths.hpp"

namespace compilecache::e2e {

std::string manifest_file() {
  const char* file = std::getenv("CC_INSTALL_MANIFEST");
  return file == nullptr ? testing::in_tree("config/install-with-registry.yaml") : file;
}

void install(const std::string& manifest) {
  const auto applied = kubectl({"apply", "-f", manifest});
  EXPECT_EQ(applied.exit_code, 0) << applied.err;
  wait_for_operator();
}

void uninstall(const std::string& manifest) {
  const auto deleted = kubectl({"delete", "-f", manifest, "--timeout=120s"}, "", seconds(150));
  EXPECT_EQ(deleted.exit_code, 0) << deleted.err;
  free_registry_volume();
}

testing::ProcessResult helm(std::vector<std::string> arguments) {
  const char* program = std::getenv("HELM");
  arguments.insert(arguments.begin(), program == nullptr ? "helm" : program);
  arguments.insert(arguments.end(), {"--namespace", kOperatorNamespace});
  return testing::run_process(arguments, "", seconds(500));
}

void remove_release() {
  helm({"uninstall", kRelease, "--ignore-not-found"});
  kubectl({"delete", "namespace", kOperatorNamespace, "--timeout=120s"}, "", seconds(150));
  free_registry_volume();
}

void free_registry_volume() {
  // The volume of a claim that is there is not free: without its uid the claim would lose it.
  if (!testing::get_json({"pvc", "compilecache-registry", "-n", kOperatorNamespace}).is_null())
    return;
  kubectl({"patch", "pv", "compilecache-registry", "--type=json", "-p",
           R"([{"op":"replace","path":"/spec/claimRef","value":)"
           R"({"namespace":"compilecache-system","name":"compilecache-registry"}}])"});
}

void wait_for_registry() {
  const auto rolled = kubectl({"rollout", "status", "deployment/compilecache-registry", "-n",
                               kOperatorNamespace, "--timeout=120s"},
                              "", seconds(130));
  EXPECT_EQ(rolled.exit_code, 0) << rolled.err;
}

}  // namespace compilecache::e2e
