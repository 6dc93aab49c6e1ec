#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"

// The API server's address and our credentials: from a kubeconfig, or from the service account that
// the kubelet mounts into a pod.
//
//   auto config = load_config({.kubeconfig = flag, .context = ""});
//   if (!config) return report(config.error());
//   auto transport = make_transport(*config);       // kube/cpprest_transport.hpp

namespace compilecache::kube {

// A program that prints credentials. Source: client.authentication.k8s.io/v1 and v1beta1.
struct ExecPlugin {
  std::string command;
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string api_version = "client.authentication.k8s.io/v1";
  bool provide_cluster_info = false;
  std::string install_hint;
};

// PEM text, or the file that holds it. A file is read again for new connections, so that a renewed
// certificate needs no restart.
struct PemSource {
  std::string data;
  std::string file;
  [[nodiscard]] bool empty() const { return data.empty() && file.empty(); }
};

struct Config {
  std::string source;        // for messages: the kubeconfig's path, or "the pod's service account"
  std::string cluster_name;  // in the kubeconfig; empty: of a pod's service account
  std::string server;        // "https://10.96.0.1:443"
  PemSource ca;              // empty: the system's certificates
  bool insecure_skip_tls_verify = false;
  std::string tls_server_name;  // the name the certificate must have when it is not the server's
  PemSource client_certificate;
  PemSource client_key;
  std::string token;
  std::string token_file;  // takes precedence over `token`
  std::optional<ExecPlugin> exec;
  std::string default_namespace = "default";
};

// The kubeconfig at `path`; `context` empty means its current-context. Relative file names in it
// are relative to it. Errors name the file and the key.
Result<Config> load_kubeconfig(const std::string& path, const std::string& context = "");

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
Environment process_environment();

// Reads KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT and the service account's files.
Result<Config> in_cluster_config(
    const Environment& environment,
    const std::string& account_folder = "/var/run/secrets/kubernetes.io/serviceaccount");

struct ConfigChoice {
  std::string kubeconfig;  // a flag's value; empty: not given
  std::string context;
};
// Takes the first that there is of: the flag, KUBECONFIG (its first file that exists), the service
// account in a cluster, ~/.kube/config. kubectl chooses so too, but takes ~/.kube/config before the
// service account.
Result<Config> load_config(const ConfigChoice& choice,
                           const Environment& environment = process_environment());

}  // namespace compilecache::kube
