#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/release.hpp"
#include "http/client.hpp"

// The operator as a process of its own, outside the cluster but with the rights of config/. Around
// it the tests' needs: the installation, and a cluster's objects that no controller
// makes here.

namespace compilecache::testing {

inline constexpr char kOperatorNamespace[] = "compilecache-system";
// As config/operator says.
inline const std::string kImage = std::string(image_repository()) + ":" + release();

// CustomResourceDefinitions, rights, Services, the Jobs' policy and the webhook's configuration,
// which here matches no namespace, since this API server reaches no Service. The error; empty when
// all went well.
std::string install_operator();

// How a process differs from the one that config/ installs.
struct OperatorProcessOptions {
  std::string ns = kOperatorNamespace;
  std::string token;  // of its service account; empty: one of compilecache-operator's
  std::string webhook_configuration = "compilecache";
  std::string agent_address = "127.0.0.1";  // empty: it asks for its Service
  bool token_in_file = false;               // so that it can be renewed, see renew_token()
  std::vector<std::string> more_arguments = {};
};

class OperatorProcess {
 public:
  // Starts it with these settings (YAML); it is ready when ready() says so.
  explicit OperatorProcess(const std::string& settings, OperatorProcessOptions options = {});
  ~OperatorProcess();
  OperatorProcess(const OperatorProcess&) = delete;
  OperatorProcess& operator=(const OperatorProcess&) = delete;

  // The plain port's answer: status and body; status 0 when there is none.
  std::pair<int, std::string> get(const std::string& path) const;
  bool ready() const { return get("/readyz").first == 200; }

  // POST by the path that the configuration has, as the API server does.
  nlohmann::json review(const nlohmann::json& pod, const std::string& ns) const;
  // The pod as it comes out of that; nothing when it is left as it is.
  std::optional<nlohmann::json> injected(const nlohmann::json& pod, const std::string& ns) const;
  // A call of the agent API with that token: status and body.
  std::pair<int, nlohmann::json> call(const std::string& method, const std::string& path,
                                      const std::string& token, const nlohmann::json& body) const;

  // GET /metrics on the agents' port, as Prometheus does it: status and body.
  std::pair<int, std::string> scrape(const std::string& token) const;

  // After its end, with the same settings and ports; its log goes on.
  void start_again();
  // SIGTERM; the exit status.
  int end();
  void send_signal(int signal) const;
  // Puts a new token of compilecache-operator where the process reads it.
  void renew_token() const;
  // Waits for its end; the exit status.
  int wait();
  [[nodiscard]] bool running() const;
  [[nodiscard]] bool leads() const;
  [[nodiscard]] int pid() const;
  [[nodiscard]] std::string log() const;
  [[nodiscard]] uint16_t webhook_port() const;
  [[nodiscard]] uint16_t agent_port() const;
  [[nodiscard]] uint16_t plain_port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A namespace with a default service account, as a controller manager would make it.
void make_namespace(const std::string& name,
                    const nlohmann::json& labels = nlohmann::json::object());
// A claim bound to a volume.
void make_claim(const std::string& ns, const std::string& name,
                const std::string& mode = "ReadWriteMany");
void make_node(const std::string& name, const std::string& gpu_product);
// A service account that may do these verbs ("get,create") with CompileCacheArchives of its
// namespace, and a token of it, as people have one.
std::string make_account(const std::string& ns, const std::string& name, const std::string& verbs);
// A token as the kubelet would project it into that pod.
std::string pod_token(const std::string& ns, const std::string& pod);
// As get_json(), but tried again when kubectl fails, and then an exception.
nlohmann::json read(const std::vector<std::string>& arguments);
// The items of a list.
std::vector<nlohmann::json> read_list(const std::vector<std::string>& arguments);
// The condition of that type of a CompileCache; null when it has none.
nlohmann::json cache_condition(const std::string& ns, const std::string& cache,
                               const std::string& type);

}  // namespace compilecache::testing
