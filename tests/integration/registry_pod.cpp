#include "tests/integration/registry_pod.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "base/sha256.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr char kHost[] = "compilecache-registry.compilecache-system.svc";
const std::string kComponent = testing::in_tree("config/components/registry");
constexpr size_t kLongestAnswer = 16U << 20;

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string registry_program() {
  const char* program = std::getenv("CC_REGISTRY");
  return program != nullptr && ::access(program, X_OK) == 0 ? program : "";
}

RegistryPod::RegistryPod(fs::path folder, const controller::Certificates& serving,
                         std::string accepted)
    : folder_(std::move(folder)), authority_(serving.bundle()), port_(free_port()) {
  fs::create_directories(folder_ / "bin");
  fs::create_directories(data());
  fs::create_symlink(registry_program(), folder_ / "bin/registry");
  serve(serving.leaf);
  accept(accepted);
}

RegistryPod::~RegistryPod() { stop(); }

void RegistryPod::accept(const std::string& authorities) {
  write_text(folder_ / "auth/ca.crt", authorities);
}

void RegistryPod::serve(const controller::KeyPair& leaf) {
  write_text(folder_ / "tls/tls.crt", leaf.certificate);
  write_text(folder_ / "tls/tls.key", leaf.key);
}

std::vector<std::string> RegistryPod::script(const std::string& name,
                                             const fs::path& volume) const {
  const std::map<std::string, std::string> environment{
      {"PATH", (folder_ / "bin").string() + ":/usr/bin:/bin"},
      {"OTEL_TRACES_EXPORTER", "none"},  // as in the image
      {"UPLOAD_LIMIT", "16"},            // MiB
      {"REGISTRY_HTTP_SECRET", "of this installation"},
      {"REGISTRY_HTTP_ADDR", "127.0.0.1:" + std::to_string(port_)},
      {"REGISTRY_HTTP_TLS_CERTIFICATE", (folder_ / "tls/tls.crt").string()},
      {"REGISTRY_HTTP_TLS_KEY", (folder_ / "tls/tls.key").string()},
      {"REGISTRY_AUTH_TOKEN_ROOTCERTBUNDLE", (folder_ / "auth/ca.crt").string()},
      {"REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY", volume.string()}};
  std::vector<std::string> command{"/usr/bin/env", "-i"};
  for (const auto& [variable, value] : environment) command.push_back(variable + "=" + value);
  command.insert(command.end(), {"sh", kComponent + "/" + name, kComponent + "/config.yml"});
  return command;
}

std::string RegistryPod::start() {
  const ProcessResult done = run_process(script("collect.sh", data()));
  collected_ = done.out + done.err;
  if (done.exit_code != 0) return "the init container fails: " + collected_;
  return serve(script("serve.sh", data()));
}

std::string RegistryPod::start_reader(const fs::path& volume) {
  std::vector<std::string> command{
      "unshare",
      "--mount",
      "sh",
      "-c",
      "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"",
      volume.string()};
  for (std::string& word : script("serve.sh", volume)) command.push_back(std::move(word));
  return serve(std::move(command));
}

std::string RegistryPod::serve(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  const std::string log = (folder_ / "log").string();
  pid_ = ::fork();
  if (pid_ == 0) {
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  // As the readiness probe.
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (send("GET", "/", "").status != 200) {
    if (std::chrono::steady_clock::now() > end)
      return "in 60 s the registry gave no good answer; is its certificate trusted? " +
             read_text(log);
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      return "the registry has ended: " + read_text(log);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return "";
}

void RegistryPod::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string RegistryPod::url(const std::string& path) const {
  return "https://" + std::string(kHost) + ":" + std::to_string(port_) + path;
}

RegistryAnswer RegistryPod::send(const std::string& method, const std::string& path,
                                 const std::string& token, const std::string& body,
                                 const std::string& type) const {
  http::Session session({.ca_pem = authority_,
                         .system_authorities = false,
                         .fixed_host = std::string(kHost) + ":" + std::to_string(port_),
                         .fixed_address = "127.0.0.1"});
  http::SessionRequest request{.method = method, .url = path.starts_with("/") ? url(path) : path};
  request.deadline = std::chrono::steady_clock::now() + seconds(30);
  request.headers = {{"Accept", "application/vnd.oci.image.manifest.v1+json"}};
  if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
  if (!type.empty()) request.headers.emplace_back("Content-Type", type);
  request.body = body;
  auto answer = session.start(request);
  if (!answer) return {0, answer.error().message, {}};
  auto text = http::read_all(**answer, kLongestAnswer);
  if (!text) return {0, text.error().message, {}};
  return {(*answer)->status(), *text, (*answer)->headers()};
}

int RegistryPod::push_blob(const std::string& repository, const std::string& token,
                           const std::string& bytes, std::string& digest) const {
  digest = "sha256:" + sha256_hex(bytes);
  const auto begun = send("POST", "/v2/" + repository + "/blobs/uploads/", token);
  if (begun.status != 202) return begun.status;
  const std::string location = begun.header("Location");
  const char* joint = location.find('?') == std::string::npos ? "?" : "&";
  return send("PUT", location + joint + "digest=" + digest, token, bytes,
              "application/octet-stream")
      .status;
}

}  // namespace compilecache::testing
