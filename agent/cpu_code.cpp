#include "agent/cpu_code.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "agent/scan.hpp"
#include "archive/beneath.hpp"
#include "frameworks/cpu_code.hpp"

namespace compilecache::agent {
namespace {

constexpr size_t kPiece = 64U << 10;

std::string cpuinfo() {
  const std::ifstream in("/proc/cpuinfo");
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

int sve_bits() {
#ifdef __aarch64__
  const int answer = ::prctl(PR_SVE_GET_VL);
  return answer < 0 ? 0 : (answer & PR_SVE_VL_LEN_MASK) * 8;
#else
  return 0;
#endif
}

// Without changing the access time where the kernel allows that, which it does for what we loaded.
archive::Fd open_quietly(const AppFolder& folder, const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK;
  archive::Fd fd = archive::open_beneath(folder->get(), path, kFlags | O_NOATIME);
  if (!fd.valid() && errno == EPERM) fd = archive::open_beneath(folder->get(), path, kFlags);
  return fd;
}

// A file that cannot be read to its end may be code.
bool read_code(const archive::Fd& fd) {
  frameworks::CpuCodeScan scan;
  std::array<uint8_t, kPiece> piece{};
  off_t at = 0;
  while (!scan.found()) {
    const ssize_t got = ::pread(fd.get(), piece.data(), piece.size(), at);
    if (got < 0) return true;
    if (got == 0) return false;
    scan.add({piece.data(), static_cast<size_t>(got)});
    at += got;
  }
  return true;
}

size_t fingerprint(const std::string& path, const struct stat& info) {
  return std::hash<std::string>{}(path + "\n" + std::to_string(info.st_size) + "\n" +
                                  std::to_string(info.st_ctim.tv_sec) + "." +
                                  std::to_string(info.st_ctim.tv_nsec));
}

}  // namespace

frameworks::HostCpu this_host(const api::AgentConfig& config) {
  const auto& variables = config.cpu_variables;
  const bool literal = std::none_of(variables.begin(), variables.end(),
                                    [](const auto& variable) { return variable.ends_with("=?"); });
  return literal ? frameworks::host_cpu(cpuinfo(), sve_bits(), variables) : frameworks::HostCpu{};
}

std::string cpu_name(const frameworks::HostCpu& host) {
  return host.name.empty() ? api::kUnknownCpu : host.name;
}

bool uses_gpu(const api::AgentConfig& config) {
  return config.key_basis.claims.has_value() || !config.key_basis.gpu_resource.empty();
}

std::string cpu_of(const archive::Manifest& manifest) {
  const auto found =
      manifest.annotations.find(std::string(archive::kAnnotationKeyPrefix) + api::kCpuPart);
  return found == manifest.annotations.end() ? "" : found->second;
}

CpuCode::CpuCode(const api::AgentConfig& config)
    : on_gpu_(uses_gpu(config)), host_(this_host(config)) {
  for (const auto& directory : config.directories) {
    rules_.emplace(directory.framework.name, frameworks::Rules(directory.framework));
    directories_.emplace(directory.framework.name, directory.path);
  }
}

void CpuCode::known(const std::string& cpu) {
  found_ = found_ || (!cpu.empty() && cpu != api::kAnyCpu);
}

std::string CpuCode::archive_cpu(const std::vector<archive::SourceFile>& files) {
  if (!found_ && on_gpu_) {
    found_ =
        std::any_of(files.begin(), files.end(), [&](const auto& file) { return holds_code(file); });
  }
  return found_ || !on_gpu_ ? cpu_name(host_) : api::kAnyCpu;
}

const frameworks::Rules* CpuCode::rules_of(std::string_view root) const {
  const auto found = rules_.find(root);
  return found == rules_.end() ? nullptr : &found->second;
}

bool CpuCode::holds_code(const archive::SourceFile& file) {
  const frameworks::Rules* rules = rules_of(file.path.substr(0, file.path.find('/')));
  if (rules == nullptr || !file.folder || rules->portable(file.local)) return false;
  if (frameworks::is_cpu_code_by_name(*rules, file.local)) return true;
  const archive::Fd fd = open_quietly(file.folder, file.local);
  struct stat info {};
  // The writer leaves out files that it may not read, and deleted ones.
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  const size_t print = fingerprint(file.path, info);
  if (clean_.contains(print)) return false;
  if (read_code(fd)) return true;
  clean_.insert(print);
  return false;
}

std::optional<std::string> CpuCode::found_by_name(const archive::Config& contents) const {
  for (const auto& file : contents.files) {
    const size_t slash = file.path.find('/');
    const frameworks::Rules* rules = rules_of(file.path.substr(0, slash));
    if (rules == nullptr || slash == std::string::npos) continue;
    if (frameworks::is_cpu_code_by_name(*rules, std::string_view(file.path).substr(slash + 1)))
      return file.path;
  }
  return std::nullopt;
}

Result<std::optional<std::string>> CpuCode::found_in_directories() const {
  for (const auto& [name, path] : directories_) {
    const auto scan = scan_directory(path);
    if (!scan) return unexpected(scan.error());
    const frameworks::Rules& rules = rules_.at(name);
    for (const auto& file : scan->items) {
      if (file.type != frameworks::FileType::kRegular || rules.portable(file.path)) continue;
      const archive::Fd fd = open_quietly(scan->folder, file.path);
      if (!fd.valid() || read_code(fd)) return name + "/" + file.path;
    }
    if (scan->truncated) return path;
  }
  return std::optional<std::string>();
}

}  // namespace compilecache::agent
