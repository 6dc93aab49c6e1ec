#include "registry.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace compilecache::bench {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLook{20};
constexpr int kLooks = 1500;
constexpr int kLooksAtEnd = 250;

constexpr const char* kConfiguration = R"(version: 0.1
log: {accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: data}
  delete: {enabled: true}
  maintenance:
    uploadpurging: {enabled: true, age: 2h, interval: 1h, dryrun: false}
http:
  addr: '127.0.0.1:0'
  secret: bench
  relativeurls: true
  tls: {certificate: tls.crt, key: tls.key}
)";

void shell(const std::string& command) {
  if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  if (!(out << text) || !out.flush()) throw std::runtime_error("writing " + path);
}

std::string read(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Registry::Registry(const std::string& program, const std::string& folder) : folder_(folder) {
  fs::create_directories(folder_ + "/ca");
  fs::create_directories(folder_ + "/data");
  make_certificates();
  write(folder_ + "/config.yml", kConfiguration);
  start(fs::absolute(program));
  try {
    wait_until_serving();
  } catch (...) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    throw;
  }
}

Registry::~Registry() {
  ::kill(process_, SIGTERM);
  for (int i = 0; i < kLooksAtEnd; ++i) {
    if (::waitpid(process_, nullptr, WNOHANG) == process_) return;
    std::this_thread::sleep_for(kLook);
  }
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

void Registry::make_certificates() const {
  const std::string key = "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes ";
  write(folder_ + "/leaf.ext", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n");
  shell("cd '" + folder_ + "' && { " + key +
        "-x509 -days 2 -subj /CN=bench-authority -keyout ca/ca.key -out ca/ca.crt && " + key +
        "-subj /CN=bench-registry -keyout tls.key -out tls.csr && "
        "openssl x509 -req -days 2 -in tls.csr -CA ca/ca.crt -CAkey ca/ca.key -CAcreateserial "
        "-extfile leaf.ext -out tls.crt; } >certificates.log 2>&1");
  // Programs take the folder for their trusted certificates.
  fs::rename(folder_ + "/ca/ca.key", folder_ + "/ca.key");
}

void Registry::start(const std::string& program) {
  process_ = ::fork();
  if (process_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int out = ::open((folder_ + "/log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::setenv("GOMEMLIMIT", "160MiB", 1);
  if (::chdir(folder_.c_str()) != 0) ::_exit(127);
  ::execl(program.c_str(), program.c_str(), "serve", "config.yml", nullptr);
  ::_exit(127);
}

// It says itself which port it was given, before it serves the first request.
void Registry::wait_until_serving() {
  const std::string said = "listening on ";
  for (int i = 0; i < kLooks; ++i) {
    const std::string text = log();
    const size_t at = text.find(said);
    const size_t end = text.find(',', at);
    if (at != std::string::npos && end != std::string::npos) {
      host_ = text.substr(at + said.size(), end - at - said.size());
      return;
    }
    if (::waitpid(process_, nullptr, WNOHANG) != 0) break;
    std::this_thread::sleep_for(kLook);
  }
  throw std::runtime_error("the registry does not serve; it says:\n" + log());
}

std::string Registry::log() const { return read(folder_ + "/log"); }

double Registry::cpu_seconds() const {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(process_, &clock) != 0 || ::clock_gettime(clock, &used) != 0)
    throw std::runtime_error("the registry has ended; it said:\n" + log());
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

double Registry::status_mib(const std::string& field) const {
  std::ifstream in("/proc/" + std::to_string(process_) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(field)) return std::stod(line.substr(field.size())) / 1024;
  }
  throw std::runtime_error("the registry has ended; it said:\n" + log());
}

double Registry::resident_mib() const { return status_mib("VmRSS:"); }
double Registry::peak_mib() const { return status_mib("VmHWM:"); }

void Registry::forget_peak() const {
  write("/proc/" + std::to_string(process_) + "/clear_refs", "5");
}

}  // namespace compilecache::bench
