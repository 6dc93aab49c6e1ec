#include "tests/unit/agent/agent_fixture.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/cpu_code.hpp"
#include "archive/format.hpp"
#include "archive/write/write.hpp"
#include "base/sha256.hpp"
#include "store/directory/directory_store.hpp"
#include "store/directory/layout.hpp"
#include "tests/support/paths.hpp"

namespace compilecache::agent::testing {

namespace fs = std::filesystem;

namespace {

frameworks::Framework torch() {
  frameworks::Framework framework;
  framework.name = "torch";
  framework.entry_directories = {"fxgraph/*/*", "aotautograd/*"};
  framework.never_pack = {"locks/**", "*.lock"};
  framework.temporary = {".*.tmp", "tmp.*"};
  framework.build_directories = {"*_CxxBuild"};
  framework.elf_files = {"*.so"};
  return framework;
}

}  // namespace

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + patience();
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string zlib_stream(const std::string& text) {
  uLongf length = ::compressBound(text.size());
  std::string out(length, '\0');
  ::compress(reinterpret_cast<Bytef*>(out.data()), &length,
             reinterpret_cast<const Bytef*>(text.data()), text.size());
  out.resize(length);
  return out;
}

AgentProcess::AgentProcess(std::vector<std::string> command, const std::string& log_file,
                           const std::map<std::string, std::string>& variables, unsigned user)
    : log_file_(log_file) {
  std::vector<char*> argv;
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int log = ::open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  pid_ = ::fork();
  if (pid_ != 0) {
    ::setpgid(pid_, pid_);  // here too, as it may be killed before it gets to it
    ::close(log);
    return;
  }
  ::setpgid(0, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::umask(077);  // as unfriendly as they come
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  // Found as the test: that user may not pass the folders on the way, as where they are below
  // /root. It stays open, since an emulator that the kernel starts it with opens it again.
  const int program = ::open(argv[0], O_PATH);
  if (user != 0 && ::geteuid() == 0 && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(126);
  ::fexecve(program, argv.data(), environ);
  ::_exit(127);
}

AgentProcess::~AgentProcess() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

AgentProcess::AgentProcess(AgentProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), log_file_(std::move(other.log_file_)) {}

AgentProcess& AgentProcess::operator=(AgentProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(log_file_, other.log_file_);
  return *this;
}

void AgentProcess::signal(int number) const { ::kill(pid_, number); }

void AgentProcess::kill_all() {
  const pid_t group = std::exchange(pid_, 0);
  ::kill(-group, SIGKILL);
  ::waitpid(group, nullptr, 0);
  EXPECT_TRUE(eventually([&] { return ::kill(-group, 0) != 0; }));
}

bool AgentProcess::running() {
  siginfo_t info{};
  return pid_ != 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

int AgentProcess::wait() {
  int result = 0;
  if (!eventually([&] { return ::waitpid(pid_, &result, WNOHANG) == pid_; })) return -1;
  pid_ = 0;
  return WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
}

std::string AgentProcess::log() const { return read_text(log_file_); }

AgentTest::AgentTest() {
  std::string path = (fs::temp_directory_path() / "compilecache-agent-XXXXXX").string();
  root_ = ::mkdtemp(path.data());
  fs::permissions(root_, fs::perms::all);
  torch_ = root_ + "/cache/torch";
  store_ = root_ + "/store";
  token_file_ = root_ + "/token";
  std::ofstream(token_file_) << "the-token\n";
  config_.cache = "demo";
  config_.ns = "ml";
  config_.cache_uid = "uid-1";
  config_.store = api::VolumeRef{};  // the mount itself
  config_.store_mount = store_;
  config_.token_file = token_file_;
  config_.directories = {{torch(), torch_}};
  config_.control_path = root_ + "/cache/control";
  config_.key_basis.parts = {"GPUProduct", "Image"};
  config_.key_basis.gpu_resource = "nvidia.com/gpu";
  config_.key_basis.gpu_count = 1;
  config_.key_basis.image = "app:1";
  config_.save.quiet_period = std::chrono::milliseconds(200);
  config_.save.at_termination = std::chrono::milliseconds(20'000);
  config_.sweep.cluster_uid = "cluster-1";
  variables_["COMPILECACHE_NODE_NAME"] = "node-1";
  EXPECT_TRUE(store::DirectoryStore(store_).prepare({"cluster-1", "ml", "uid-1"}, false));
}

AgentTest::~AgentTest() { fs::remove_all(root_); }

void AgentTest::with_operator() {
  config_.operator_address = "127.0.0.1";
  config_.operator_port = operator_.port();
  config_.operator_name = FakeOperator::kName;
  config_.operator_ca = operator_.ca();
}

AgentProcess AgentTest::start(const std::string& command, const std::vector<std::string>& more,
                              unsigned user) {
  auto variables = variables_;
  variables.try_emplace("COMPILECACHE_CONFIG", api::dump(config_));
  std::vector<std::string> words{compilecache::testing::in_build("agent/compilecache-agent"),
                                 command};
  words.insert(words.end(), more.begin(), more.end());
  return {std::move(words), new_log(command), variables, user};
}

AgentProcess AgentTest::supervise(std::vector<std::string> command, unsigned user) {
  auto variables = variables_;
  variables.try_emplace("COMPILECACHE_CONFIG", api::dump(config_));
  command.insert(command.begin(), compilecache::testing::in_build("agent/compilecache-supervise"));
  return {std::move(command), new_log("supervise"), variables, user};
}

std::string AgentTest::agent_program() {
  return compilecache::testing::in_build("agent/compilecache-agent");
}

std::vector<std::string> AgentTest::saver() { return {agent_program(), "save"}; }

std::string AgentTest::new_log(const std::string& name) const {
  std::string log = root_ + "/" + name + ".log";
  std::ofstream(log, std::ios::trunc).close();
  fs::permissions(log, fs::perms(0666));
  return log;
}

int AgentTest::run(const std::string& command, const std::vector<std::string>& more) {
  AgentProcess process = start(command, more);
  const int code = process.wait();
  log_ = process.log();
  operator_.wait_until_idle();
  return code;
}

int AgentTest::end(AgentProcess& process) {
  process.signal(SIGTERM);
  const int code = process.wait();
  operator_.wait_until_idle();
  return code;
}

void AgentTest::write(const std::string& path, const std::string& text) const {
  const fs::path full = torch_ + "/" + path;
  fs::create_directories(full.parent_path());
  std::ofstream(full, std::ios::binary) << text;
}

std::string AgentTest::content(const std::string& path) const {
  return read_text(torch_ + "/" + path);
}

bool AgentTest::has(const std::string& path) const { return fs::exists(torch_ + "/" + path); }

void AgentTest::read(const std::string& path) const {
  // File times have the kernel's tick; no application reads or writes within a tick of the load.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  [[maybe_unused]] const std::string text = content(path);
}

void AgentTest::remove_cache() const { fs::remove_all(root_ + "/cache"); }

nlohmann::json AgentTest::status() const {
  return nlohmann::json::parse(read_text(control("status.json")), nullptr, false);
}

std::string AgentTest::control(const std::string& name) const {
  return config_.control_path + "/" + name;
}

archive::ArchiveInfo AgentTest::put_archive(const std::map<std::string, std::string>& files,
                                            const std::string& parent) {
  archive::WriteRequest request;
  request.parent = parent;
  if (!archive_cpu_.empty()) {
    request.annotations[std::string(archive::kAnnotationKeyPrefix) + api::kCpuPart] = archive_cpu_;
  }
  int number = 0;
  for (const auto& [path, text] : files) {
    const std::string local = root_ + "/source" + std::to_string(number++);
    std::ofstream(local, std::ios::binary) << text;
    request.files.push_back({local, path});
  }
  store::DirectoryStore store(store_);
  const auto written = archive::write_archive(store, request);
  EXPECT_TRUE(written) << written.error().message;
  return written ? written->archive : archive::ArchiveInfo{};
}

std::string AgentTest::host_cpu() const { return cpu_name(this_host(config_)); }

std::vector<std::string> AgentTest::paths_of(const std::string& digest) const {
  std::vector<std::string> paths;
  const store::DirectoryStore store(store_);
  const auto manifest = archive::read_manifest(store, digest);
  if (!manifest) return paths;
  const auto config = archive::read_config(store, *manifest);
  if (!config) return paths;
  for (const auto& file : config->files) paths.push_back(file.path);
  return paths;
}

void AgentTest::flip_a_byte_in(const std::string& digest) const {
  const std::string path = store::blob_path(store_, digest);
  std::string bytes = read_text(path);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string AgentTest::put_unsupported(const std::string& manifest) const {
  auto changed = nlohmann::json::parse(read_text(store::blob_path(store_, manifest)));
  changed["artifactType"] = "application/vnd.of.another.release";
  const std::string text = changed.dump();
  const std::string digest = "sha256:" + sha256_hex(text);
  std::ofstream(store::blob_path(store_, digest), std::ios::binary) << text;
  return digest;
}

}  // namespace compilecache::agent::testing
