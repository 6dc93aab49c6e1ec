#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/agent_config.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source_file.hpp"
#include "base/error.hpp"
#include "frameworks/cpu.hpp"
#include "frameworks/rules.hpp"

// For which CPUs what is in the pod's cache directories was compiled, and whether it is.

namespace compilecache::agent {

// This host's, as the pod's application sees it. Unknown where the node does not
// show its features, or the application's variables are not literal.
frameworks::HostCpu this_host(const api::AgentConfig& config);

// The name that is reported to the operator: of the kind of host, or api::kUnknownCpu.
std::string cpu_name(const frameworks::HostCpu& host);

// Whether a pod of this configuration compiles for GPUs. What others compile is for their CPU,
// whatever it looks like.
bool uses_gpu(const api::AgentConfig& config);

// For which hosts an archive is: api::kCpuPart of its key, which its manifest has too; "" where
// nobody knows.
std::string cpu_of(const archive::Manifest& manifest);

// Looks for code for CPUs in the cache directories, in each file once as long as it does not
// change. Not thread-safe.
class CpuCode {
 public:
  explicit CpuCode(const api::AgentConfig& config);

  [[nodiscard]] const frameworks::HostCpu& host() const { return host_; }
  // Loaded and earlier saved files were for these hosts.
  void known(const std::string& cpu);

  // The hosts of an archive with these files, and with others that are known: api::kAnyCpu or the
  // host's kind. api::kUnknownCpu: it holds code for CPUs of an unknown kind.
  // Once there is such code, there is.
  std::string archive_cpu(const std::vector<archive::SourceFile>& files);

  // The first of these files of an archive that is code for CPUs by its name alone.
  [[nodiscard]] std::optional<std::string> found_by_name(const archive::Config& contents) const;
  // The first file in the directories that holds code for CPUs; access times stay as they are.
  // kIo: they cannot be looked into.
  [[nodiscard]] Result<std::optional<std::string>> found_in_directories() const;

 private:
  // Null: no framework's of this pod.
  [[nodiscard]] const frameworks::Rules* rules_of(std::string_view root) const;
  bool holds_code(const archive::SourceFile& file);

  const bool on_gpu_;
  const frameworks::HostCpu host_;
  std::map<std::string, frameworks::Rules, std::less<>> rules_;  // by framework
  std::map<std::string, std::string> directories_;               // likewise
  bool found_ = false;
  std::unordered_set<size_t> clean_;  // hashes of path, size and time
};

}  // namespace compilecache::agent
