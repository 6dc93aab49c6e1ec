#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/process.hpp>
#include <boost/process/extend.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <nlohmann/json.hpp>

#include "base/base64.hpp"
#include "kube/credentials.hpp"
#include "kube/json.hpp"

namespace compilecache::kube {
namespace {

namespace bp = boost::process;
using Json = nlohmann::json;

constexpr std::chrono::seconds kPluginTime{60};
constexpr size_t kShownErrors = 500;

// KUBERNETES_EXEC_INFO of client.authentication.k8s.io.
Result<std::string> exec_info(const ExecPlugin& plugin, const Config& config) {
  Json info = {{"apiVersion", plugin.api_version},
               {"kind", "ExecCredential"},
               {"spec", {{"interactive", false}}}};
  if (plugin.provide_cluster_info) {
    Json& cluster = info["spec"]["cluster"];
    cluster["server"] = config.server;
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (config.insecure_skip_tls_verify) cluster["insecure-skip-tls-verify"] = true;
    auto ca = read_pem(config.ca, "the certificate authority");
    if (!ca) return unexpected(ca.error());
    if (!ca->empty()) cluster["certificate-authority-data"] = base64_encode(*ca);
  }
  return info.dump();
}

// Runs in the child, so that the plugin does not inherit our sockets (Boost's own limit_handles
// also closes the standard streams), nor signals that we block: Ctrl-C ends it too.
struct InheritNothing : bp::extend::handler {
  template <typename Executor>
  void on_exec_setup(Executor&) const {
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
  }
};

// Our environment with the plugin's variables. (Boost 1.74's own reads beyond short entries.)
class Environment : public bp::extend::handler {
 public:
  void set(const std::string& name, const std::string& value) { variables_[name] = value; }

  template <typename Executor>
  void on_setup(Executor& executor) const {
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (!variables_.contains(text.substr(0, text.find('=')))) entries_.push_back(text);
    }
    for (const auto& [name, value] : variables_) entries_.push_back(name + "=" + value);
    for (std::string& entry : entries_) pointers_.push_back(entry.data());
    pointers_.push_back(nullptr);
    executor.env = pointers_.data();
  }

 private:
  std::map<std::string, std::string> variables_;
  mutable std::vector<std::string> entries_;  // as Boost's handlers are called through const
  mutable std::vector<char*> pointers_;
};

struct Output {
  int exit_code = 0;
  std::string out;
  std::string err;
};

Result<Output> run(const ExecPlugin& plugin, const std::string& info) {
  const boost::filesystem::path program = plugin.command.find('/') != std::string::npos
                                              ? boost::filesystem::path(plugin.command)
                                              : bp::search_path(plugin.command);
  if (program.empty() || !boost::filesystem::exists(program)) {
    return fail(
        ErrorCode::kUnauthorized,
        "no such program" + (plugin.install_hint.empty() ? "" : "; " + plugin.install_hint));
  }
  Environment environment;
  for (const auto& [name, value] : plugin.env) environment.set(name, value);
  environment.set("KUBERNETES_EXEC_INFO", info);

  boost::asio::io_context io;
  std::future<std::string> out;
  std::future<std::string> err;
  bp::child child(program, bp::args(plugin.args), environment, (bp::std_in < bp::null),
                  (bp::std_out > out), (bp::std_err > err), InheritNothing(), io);
  io.run_for(kPluginTime);
  if (!io.stopped()) {
    child.terminate();
    return fail(ErrorCode::kUnauthorized, "no answer within a minute");
  }
  child.wait();
  return Output{child.exit_code(), out.get(), err.get()};
}

Result<ExecCredential> read_answer(const ExecPlugin& plugin, const std::string& text) {
  const Json answer = Json::parse(text, nullptr, false);
  if (!answer.is_object()) return fail(ErrorCode::kUnauthorized, "it printed no JSON object");
  if (string_at(answer, {"kind"}) != "ExecCredential") {
    return fail(ErrorCode::kUnauthorized, "it printed no ExecCredential");
  }
  if (string_at(answer, {"apiVersion"}) != plugin.api_version) {
    return fail(ErrorCode::kUnauthorized, "it answered in apiVersion \"" +
                                              string_at(answer, {"apiVersion"}) + "\", wanted " +
                                              plugin.api_version);
  }
  ExecCredential credential;
  credential.credentials.bearer_token = string_at(answer, {"status", "token"});
  credential.credentials.client_certificate =
      string_at(answer, {"status", "clientCertificateData"});
  credential.credentials.client_key = string_at(answer, {"status", "clientKeyData"});
  credential.expiration = string_at(answer, {"status", "expirationTimestamp"});
  const Credentials& given = credential.credentials;
  if (given.bearer_token.empty() && given.client_certificate.empty()) {
    return fail(ErrorCode::kUnauthorized, "its status has neither token nor clientCertificateData");
  }
  if (given.client_certificate.empty() != given.client_key.empty()) {
    return fail(ErrorCode::kUnauthorized,
                "its status has only one of clientCertificateData and clientKeyData");
  }
  return credential;
}

}  // namespace

Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, const Config& config) {
  const std::string doing = "running credential plugin " + plugin.command + " of " + config.source;
  try {
    auto info = exec_info(plugin, config);
    if (!info) return unexpected(info.error().with(doing));
    auto output = run(plugin, *info);
    if (!output) return unexpected(output.error().with(doing));
    if (output->exit_code != 0) {
      return fail(ErrorCode::kUnauthorized, doing + ": exit code " +
                                                std::to_string(output->exit_code) + ": " +
                                                output->err.substr(0, kShownErrors));
    }
    auto answer = read_answer(plugin, output->out);
    if (!answer) return unexpected(answer.error().with(doing));
    return answer;
  } catch (const std::exception& error) {
    return fail(ErrorCode::kUnauthorized, doing + ": " + error.what());
  }
}

}  // namespace compilecache::kube
