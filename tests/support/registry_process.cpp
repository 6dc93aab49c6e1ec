#include "tests/support/registry_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/free_port.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/process.hpp"

namespace compilecache::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kPorts = 5;

// distribution v3 is where $CC_REGISTRY says; tests/run.sh does.
std::string program_of(RegistryKind kind) {
  if (kind == RegistryKind::kDebian) return "/usr/bin/docker-registry";
  const char* program = std::getenv("CC_REGISTRY");
  return program == nullptr ? "" : program;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

std::string missing_registry(RegistryKind kind) {
  if (::access(program_of(kind).c_str(), X_OK) == 0) return "";
  return kind == RegistryKind::kDebian
             ? "docker-registry is not installed: apt-get install docker-registry"
             : "no distribution v3: CC_REGISTRY=$(tests/cluster/cluster registry)";
}

RegistryProcess::RegistryProcess(RegistryKind kind, std::string folder, RegistrySetup setup)
    : kind_(kind), folder_(std::move(folder)), setup_(std::move(setup)) {
  fs::create_directories(folder_);
  // Another program may take the port first.
  for (int attempt = 0; attempt < kPorts && !answers(); ++attempt) {
    kill();
    port_ = free_port();
    start();
  }
}

RegistryProcess::~RegistryProcess() { kill(); }

std::string RegistryProcess::data() const {
  return setup_.data.empty() ? folder_ + "/data" : setup_.data;
}

void RegistryProcess::write_config() const {
  std::ostringstream config;
  config << "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
         << "storage: {filesystem: {rootdirectory: " << data()
         << "}, delete: {enabled: " << (setup_.deletes ? "true" : "false") << "}}\n"
         << "http: {addr: \"" << host() << "\", secret: the same, relativeurls: true";
  if (!setup_.certificate_pem.empty()) {
    write_text(folder_ + "/tls.crt", setup_.certificate_pem);
    write_text(folder_ + "/tls.key", setup_.key_pem);
    config << ", tls: {certificate: " << folder_ << "/tls.crt, key: " << folder_ << "/tls.key}";
  }
  config << "}\n";
  if (!setup_.htpasswd.empty()) {
    write_text(folder_ + "/htpasswd", setup_.htpasswd + "\n");
    config << "auth: {htpasswd: {realm: a test, path: " << folder_ << "/htpasswd}}\n";
  } else if (!setup_.token_realm.empty()) {
    write_text(folder_ + "/tokens.crt", setup_.token_authority_pem);
    config << "auth: {token: {realm: \"" << setup_.token_realm
           << "\", service: registry, issuer: compilecache, rootcertbundle: " << folder_
           << "/tokens.crt";
    if (kind_ == RegistryKind::kDistribution) config << ", signingalgorithms: [ES256]";
    config << "}}\n";
  }
  write_text(folder_ + "/config.yml", config.str());
}

void RegistryProcess::start() {
  write_config();
  const std::string program = program_of(kind_), config = folder_ + "/config.yml";
  const std::string log_path = folder_ + "/log";
  pid_ = ::fork();
  if (pid_ == 0) {
    const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(log, 1);
    ::dup2(log, 2);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // v3 would send traces to a collector that is not there.
    ::setenv("OTEL_TRACES_EXPORTER", "none", 1);
    ::execl(program.c_str(), program.c_str(), "serve", config.c_str(), nullptr);
    ::_exit(127);
  }
  while (!answers()) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    if (pid_ == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool RegistryProcess::answers() const {
  if (port_ == 0 || pid_ == 0) return false;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port_);
  const bool connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  ::close(fd);
  return connected;
}

std::string RegistryProcess::problem() const {
  if (answers()) return "";
  std::ifstream log(folder_ + "/log");
  return "the registry does not answer; its log:\n" +
         std::string(std::istreambuf_iterator<char>(log), {});
}

void RegistryProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void RegistryProcess::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

void RegistryProcess::start_again() {
  kill();
  start();
}

void RegistryProcess::start_again(RegistryKind kind) {
  kill();
  kind_ = kind;
  start();
}

std::string RegistryProcess::collect() {
  // The script calls it by this name.
  const fs::path bin = fs::path(folder_) / "bin";
  fs::create_directories(bin);
  if (!fs::exists(bin / "registry")) fs::create_symlink(program_of(kind_), bin / "registry");
  const ProcessResult done = run_process(
      {"/usr/bin/env", "-i", "PATH=" + bin.string() + ":/usr/bin:/bin", "OTEL_TRACES_EXPORTER=none",
       "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY=" + data(), "sh",
       in_tree("config/components/registry/collect.sh"), folder_ + "/config.yml"});
  return done.out + done.err;
}

}  // namespace compilecache::testing
