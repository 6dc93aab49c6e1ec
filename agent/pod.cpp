#include "agent/pod.hpp"

#include <unistd.h>

#include <cstdlib>

#include "agent/files.hpp"
#include "api/names.hpp"
#include "base/strings.hpp"

namespace compilecache::agent {
namespace {

Status check(const api::AgentConfig& config) {
  const auto missing = [](const char* field) {
    return fail(ErrorCode::kInvalid, std::string("the agent's configuration lacks \"") + field +
                                         "\"; the operator writes it, or you by hand (see "
                                         "agent/README.md)");
  };
  if (config.cache.empty()) return missing("cache");
  if (!config.store) return missing("store");
  return {};
}

}  // namespace

Result<api::AgentConfig> read_agent_config(const std::string& file) {
  std::string text;
  if (!file.empty()) {
    auto content = read_file(file);
    if (!content) return unexpected(content.error());
    text = std::move(*content);
  } else if (const char* variable = std::getenv(api::kConfigVariable)) {
    text = variable;
  } else {
    return fail(ErrorCode::kInvalid, std::string("no configuration: set ") + api::kConfigVariable +
                                         " or pass --config FILE");
  }
  auto config = api::parse_agent_config(text);
  if (!config) return config;
  if (const auto checked = check(*config); !checked) return unexpected(checked.error());
  return config;
}

std::string node_name() {
  if (const char* name = std::getenv(api::kNodeNameVariable); name != nullptr && *name != 0) {
    return name;
  }
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  return host;
}

std::string boot_id() {
  const auto id = read_file("/proc/sys/kernel/random/boot_id");
  return id ? std::string(trim(*id)) : "";
}

api::LoadedReport loaded_report(const std::string& cache, const LoadStatus& status) {
  api::LoadedReport report;
  report.cache = cache;
  report.outcome = status.outcome;
  report.reason = status.reason;
  report.message = status.message;
  report.archive = status.archive;
  report.manifest_digest = status.manifest_digest;
  report.match = status.match;
  report.source = status.source;
  report.corrupt_digest = status.corrupt_digest;
  report.generation = status.generation;
  report.milliseconds = status.milliseconds;
  report.bytes = status.bytes;
  report.files = status.files;
  report.waited_ms = status.waited_ms;
  report.asked_ms = status.asked_ms;
  report.waited_for = status.waited_for;
  report.cpu = status.host_cpu;
  return report;
}

}  // namespace compilecache::agent
