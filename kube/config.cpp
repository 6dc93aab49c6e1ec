#include "kube/config.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/strings.hpp"

namespace compilecache::kube {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Result<Config> in_cluster_config(const Environment& environment,
                                 const std::string& account_folder) {
  const std::string host = environment("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = environment("KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return fail(ErrorCode::kNotFound,
                "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod; "
                "give a kubeconfig");
  }
  Config config;
  config.source = "the pod's service account";
  config.server = "https://" + url_host(host) + ":" + port;
  config.ca.file = account_folder + "/ca.crt";
  config.token_file = account_folder + "/token";
  for (const std::string& file : {config.ca.file, config.token_file}) {
    if (!std::ifstream(file)) {
      return fail(ErrorCode::kNotFound,
                  "reading the pod's service account: cannot open " + file +
                      "; does the pod set automountServiceAccountToken: false?");
    }
  }
  std::ifstream ns_file(account_folder + "/namespace");
  const std::string ns{std::istreambuf_iterator<char>(ns_file), {}};
  if (!trim(ns).empty()) config.default_namespace = std::string(trim(ns));
  return config;
}

Result<Config> load_config(const ConfigChoice& choice, const Environment& environment) {
  if (!choice.kubeconfig.empty()) return load_kubeconfig(choice.kubeconfig, choice.context);
  const std::string list = environment("KUBECONFIG").value_or("");
  for (const std::string& path : split(list, ':')) {
    if (!path.empty() && std::filesystem::exists(path)) {
      return load_kubeconfig(path, choice.context);
    }
  }
  if (!trim(list).empty()) {
    return fail(ErrorCode::kNotFound, "KUBECONFIG=" + list + ": no such file");
  }
  if (environment("KUBERNETES_SERVICE_HOST")) return in_cluster_config(environment);
  const std::string home = environment("HOME").value_or("");
  const std::string path = home + "/.kube/config";
  if (!home.empty() && std::filesystem::exists(path)) return load_kubeconfig(path, choice.context);
  return fail(ErrorCode::kNotFound,
              "no cluster is configured: not in a pod, KUBECONFIG is not set and there is no "
              "~/.kube/config; give --kubeconfig");
}

}  // namespace compilecache::kube
