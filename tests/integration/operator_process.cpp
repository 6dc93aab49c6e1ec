#include "tests/integration/operator_process.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <boost/process.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "api/names.hpp"
#include "base/base64.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/kubectl.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::testing {
namespace {

namespace bp = boost::process;
namespace fs = std::filesystem;
using nlohmann::json;

const std::string kConfig = testing::in_tree("config/operator/");

void must(const ProcessResult& result, const std::string& doing) {
  if (result.exit_code != 0) throw std::runtime_error(doing + ": " + result.err + result.out);
}

void must_apply(const json& object) {
  if (const std::string error = apply(object); !error.empty()) throw std::runtime_error(error);
}

// Sends `request` to that port of this machine; all that comes back.
std::string talk(uint16_t port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    std::array<char, 4096> buffer{};
    for (ssize_t got = 0; (got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0;) {
      answer.append(buffer.data(), static_cast<size_t>(got));
    }
  }
  ::close(fd);
  return answer;
}

std::string operator_token() {
  const ProcessResult made = kubectl(
      {"create", "token", "compilecache-operator", "-n", kOperatorNamespace, "--duration=2h"});
  must(made, "making a token for the operator");
  return made.out.substr(0, made.out.find('\n'));
}

// With that user instead of the administrator.
json operator_kubeconfig(const json& user) {
  const ProcessResult view =
      kubectl({"config", "view", "--raw", "--minify", "--flatten", "-o", "json"});
  must(view, "reading the kubeconfig");
  json config = json::parse(view.out);
  config["users"][0]["user"] = user;
  return config;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string install_operator() {
  for (const std::string& part :
       {testing::in_tree("crds/compilecaches.yaml"),
        testing::in_tree("crds/compilecachearchives.yaml"), kConfig + "namespace.yaml",
        kConfig + "rbac.yaml", kConfig + "certificates-rbac.yaml", kConfig + "job-policy.yaml",
        kConfig + "services.yaml", kConfig + "deployment.yaml"}) {
    const ProcessResult result = kubectl({"apply", "-f", part});
    if (result.exit_code != 0) return result.err;
  }
  const ProcessResult webhook =
      kubectl({"create", "--dry-run=client", "-o", "json", "-f", kConfig + "webhook.yaml"});
  if (webhook.exit_code != 0) return webhook.err;
  json configuration = json::parse(webhook.out);
  configuration["webhooks"][0]["namespaceSelector"] = {{"matchLabels", {{"never", "matches"}}}};
  return apply(configuration);
}

struct OperatorProcess::Impl {
  OperatorProcessOptions options;
  fs::path folder;
  uint16_t webhook_port = free_port(), agent_port = free_port(), plain_port = free_port();
  mutable bp::child child;

  // The CA that the operator wrote into its Secret.
  [[nodiscard]] std::string ca() const {
    const json secret = read({"secret", "compilecache-certificates", "-n", options.ns});
    const json encoded = at(secret, "/data/ca.crt");
    return encoded.is_string() ? base64_decode(encoded.get<std::string>()).value_or("") : "";
  }

  // The path that the operator writes into the webhook's configuration.
  [[nodiscard]] std::string review_path() const {
    const json secret = read({"secret", "compilecache-review-path", "-n", options.ns});
    const json encoded = at(secret, "/data/path");
    return encoded.is_string() ? "/mutate/" + base64_decode(encoded.get<std::string>()).value_or("")
                               : "/mutate";
  }

  [[nodiscard]] http::Client client(uint16_t port, const char* service) const {
    return http::Client({.address = "127.0.0.1",
                         .port = port,
                         .ca_pem = ca(),
                         .server_name = std::string(service) + "." + options.ns + ".svc"});
  }

  [[nodiscard]] std::vector<std::string> arguments() const {
    std::vector<std::string> list{"--settings",
                                  folder / "settings.yaml",
                                  "--kubeconfig",
                                  folder / "kubeconfig",
                                  "--namespace",
                                  options.ns,
                                  "--webhook-configuration",
                                  options.webhook_configuration,
                                  "--image",
                                  kImage,
                                  "--advertise-address",
                                  "10.1.2.3",
                                  "--listen-address",
                                  "127.0.0.1",
                                  "--webhook-port",
                                  std::to_string(webhook_port),
                                  "--agent-port",
                                  std::to_string(agent_port),
                                  "--plain-port",
                                  std::to_string(plain_port),
                                  "--drain",
                                  "1s",
                                  "--log-format",
                                  "text"};
    if (!options.agent_address.empty()) {
      list.insert(list.end(), {"--agent-address", options.agent_address});
    }
    list.insert(list.end(), options.more_arguments.begin(), options.more_arguments.end());
    return list;
  }

  void start() {
    const char* program = std::getenv("CC_OPERATOR");
    std::FILE* log = std::fopen((folder / "log").c_str(), "a");
    const std::string built = testing::in_build("operator/compilecache-operator");
    child = bp::child(program != nullptr ? program : built, bp::args(arguments()),
                      bp::std_err > log, bp::std_out > bp::null, bp::std_in < bp::null);
    std::fclose(log);
  }
};

OperatorProcess::OperatorProcess(const std::string& settings, OperatorProcessOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  std::array<char, 64> name{"/tmp/operator-test-XXXXXX"};
  impl_->folder = ::mkdtemp(name.data());
  std::ofstream(impl_->folder / "settings.yaml") << settings;
  json user = {{"tokenFile", impl_->folder / "token"}};
  if (impl_->options.token_in_file) {
    renew_token();
  } else {
    user = {{"token", impl_->options.token.empty() ? operator_token() : impl_->options.token}};
  }
  std::ofstream(impl_->folder / "kubeconfig") << operator_kubeconfig(user).dump();
  impl_->start();
}

OperatorProcess::~OperatorProcess() {
  if (impl_->child.running()) impl_->child.terminate();
  fs::remove_all(impl_->folder);
}

std::pair<int, std::string> OperatorProcess::get(const std::string& path) const {
  const std::string answer = talk(impl_->plain_port, "GET " + path +
                                                         " HTTP/1.1\r\nHost: operator\r\n"
                                                         "Connection: close\r\n\r\n");
  const size_t body = answer.find("\r\n\r\n");
  if (body == std::string::npos) return {0, ""};
  return {std::atoi(answer.c_str() + std::string("HTTP/1.1 ").size()), answer.substr(body + 4)};
}

json OperatorProcess::review(const json& pod, const std::string& ns) const {
  const json review = {{"apiVersion", "admission.k8s.io/v1"},
                       {"kind", "AdmissionReview"},
                       {"request",
                        {{"uid", "test"},
                         {"namespace", ns},
                         {"operation", "CREATE"},
                         {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
                         {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
                         {"object", pod}}}};
  const auto answer = impl_->client(impl_->webhook_port, api::kWebhookService)
                          .send({.method = "POST",
                                 .target = impl_->review_path() + "?timeout=3s",
                                 .body = review.dump()});
  if (!answer) throw std::runtime_error(answer.error().message);
  return json::parse(answer->body).at("response");
}

std::optional<json> OperatorProcess::injected(const json& pod, const std::string& ns) const {
  const json response = review(pod, ns);
  if (!response.contains("patch")) return std::nullopt;
  return pod.patch(json::parse(base64_decode(response.at("patch").get<std::string>()).value()));
}

std::pair<int, json> OperatorProcess::call(const std::string& method, const std::string& path,
                                           const std::string& token, const json& body) const {
  const auto answer = impl_->client(impl_->agent_port, api::kAgentService)
                          .send({.method = method,
                                 .target = path,
                                 .body = body.is_null() ? "" : body.dump(),
                                 .bearer_token = token});
  if (!answer) throw std::runtime_error(answer.error().message);
  return {answer->status, json::parse(answer->body, nullptr, false)};
}

std::pair<int, std::string> OperatorProcess::scrape(const std::string& token) const {
  const auto answer = impl_->client(impl_->agent_port, api::kAgentService)
                          .send({.method = "GET", .target = "/metrics", .bearer_token = token});
  if (!answer) throw std::runtime_error(answer.error().message);
  return {answer->status, answer->body};
}

void OperatorProcess::send_signal(int signal) const { ::kill(impl_->child.id(), signal); }

void OperatorProcess::renew_token() const {
  std::ofstream(impl_->folder / "token.new") << operator_token();
  fs::rename(impl_->folder / "token.new", impl_->folder / "token");
}

void OperatorProcess::start_again() { impl_->start(); }

int OperatorProcess::wait() {
  impl_->child.wait();
  return impl_->child.exit_code();
}

int OperatorProcess::end() {
  send_signal(SIGTERM);
  return wait();
}

bool OperatorProcess::running() const { return impl_->child.running(); }

bool OperatorProcess::leads() const {
  return get("/metrics").second.find("\ncompilecache_leader 1") != std::string::npos;
}

int OperatorProcess::pid() const { return impl_->child.id(); }

std::string OperatorProcess::log() const { return read_file(impl_->folder / "log"); }

uint16_t OperatorProcess::webhook_port() const { return impl_->webhook_port; }

uint16_t OperatorProcess::agent_port() const { return impl_->agent_port; }

uint16_t OperatorProcess::plain_port() const { return impl_->plain_port; }

void make_namespace(const std::string& name, const json& labels) {
  must_apply({{"apiVersion", "v1"},
              {"kind", "Namespace"},
              {"metadata", {{"name", name}, {"labels", labels}}}});
  must_apply({{"apiVersion", "v1"},
              {"kind", "ServiceAccount"},
              {"metadata", {{"name", "default"}, {"namespace", name}}}});
}

void make_claim(const std::string& ns, const std::string& name, const std::string& mode) {
  const std::string volume = ns + "-" + name;
  must_apply({{"apiVersion", "v1"},
              {"kind", "PersistentVolume"},
              {"metadata", {{"name", volume}}},
              {"spec",
               {{"capacity", {{"storage", "1Gi"}}},
                {"accessModes", {mode}},
                {"hostPath", {{"path", "/nowhere"}}},
                {"storageClassName", "none"}}}});
  must_apply({{"apiVersion", "v1"},
              {"kind", "PersistentVolumeClaim"},
              {"metadata", {{"name", name}, {"namespace", ns}}},
              {"spec",
               {{"accessModes", {mode}},
                {"resources", {{"requests", {{"storage", "1Gi"}}}}},
                {"storageClassName", "none"},
                {"volumeName", volume}}}});
  must(kubectl({"patch", "pvc", name, "-n", ns, "--subresource=status", "--type=merge", "-p",
                json{{"status", {{"phase", "Bound"}, {"accessModes", {mode}}}}}.dump()}),
       "binding a claim");
}

void make_node(const std::string& name, const std::string& gpu_product) {
  must_apply(
      {{"apiVersion", "v1"},
       {"kind", "Node"},
       {"metadata",
        {{"name", name},
         {"labels", {{"kubernetes.io/arch", "amd64"}, {"nvidia.com/gpu.product", gpu_product}}}}}});
}

std::string make_account(const std::string& ns, const std::string& name, const std::string& verbs) {
  must(kubectl({"create", "serviceaccount", name, "-n", ns}), "making a service account");
  must(kubectl({"create", "role", name, "-n", ns, "--verb=" + verbs,
                "--resource=compilecachearchives.compilecache.dev"}),
       "making a role");
  must(kubectl({"create", "rolebinding", name, "-n", ns, "--role=" + name,
                "--serviceaccount=" + ns + ":" + name}),
       "binding a role");
  const ProcessResult token = kubectl({"create", "token", name, "-n", ns});
  must(token, "making a token");
  return token.out.substr(0, token.out.find('\n'));
}

std::string pod_token(const std::string& ns, const std::string& pod) {
  const ProcessResult token =
      kubectl({"create", "token", "default", "-n", ns, "--audience", api::kTokenAudience,
               "--bound-object-kind", "Pod", "--bound-object-name", pod});
  must(token, "making a pod's token");
  return token.out.substr(0, token.out.find('\n'));
}

json read(const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"get", "-o", "json", "--ignore-not-found"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  ProcessResult result;
  for (int i = 0; i < 3; ++i) {
    result = kubectl(all);
    if (result.exit_code != 0) continue;
    return result.out.empty() ? json() : json::parse(result.out);
  }
  throw std::runtime_error("kubectl get: " + result.err);
}

std::vector<json> read_list(const std::vector<std::string>& arguments) {
  const json items = at(read(arguments), "/items");  // nothing is printed for an empty list
  return items.is_array() ? items.get<std::vector<json>>() : std::vector<json>();
}

json cache_condition(const std::string& ns, const std::string& cache, const std::string& type) {
  const json object = read({"compilecache", cache, "-n", ns});
  for (const json& condition : at(object, "/status/conditions")) {
    if (condition.value("type", "") == type) return condition;
  }
  return nullptr;
}

}  // namespace compilecache::testing
