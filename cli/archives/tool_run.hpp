#pragma once

#include <chrono>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "cli/cluster/cluster.hpp"

namespace compilecache::cli {

struct ToolRun {
  api::VolumeRef volume;
  std::string image;  // of compilecache-agent; empty: what the operator uses in the namespace
  std::vector<std::string> arguments;
  std::chrono::seconds deadline{600};
  bool writes = false;
  std::string clears;  // as ToolJobInput's
};

struct ToolResult {
  int exit_code = 0;
  std::string output;  // its log, standard output and errors
};

// Runs compilecache-agent on a volume, in a Job (tool_job.hpp) that is deleted at the end, and
// waits for it; `progress` hears why that takes long. kTimeout: not within the deadline; other
// errors are the API server's: no right to make Jobs, or to read their pods and logs.
Result<ToolResult> run_tool(const Cluster& cluster, const ToolRun& run, std::ostream& progress);

// A Job that waits with the volume mounted, until it is deleted with this object. The cluster must
// outlive it.
//
//   const auto tool = WaitingTool::start(cluster, {.volume = volume}, std::cerr);
//   run_kubectl(options, tool->exec({"compilecache-agent", "inspect", path}), {.output = file});
class WaitingTool {
 public:
  // Errors are those of run_tool(); a ToolRun's arguments are left out.
  static Result<WaitingTool> start(const Cluster& cluster, ToolRun run, std::ostream& progress);
  ~WaitingTool();
  WaitingTool(WaitingTool&& other) noexcept;
  WaitingTool& operator=(WaitingTool&&) = delete;

  // kubectl's arguments that run a command in it, with its standard input and output.
  [[nodiscard]] std::vector<std::string> exec(const std::vector<std::string>& command) const;

 private:
  class Job;
  explicit WaitingTool(std::unique_ptr<Job> job, std::vector<std::string> prefix);
  std::unique_ptr<Job> job_;
  std::vector<std::string> prefix_;
};

}  // namespace compilecache::cli
