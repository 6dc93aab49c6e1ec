#pragma once

#include <chrono>
#include <iosfwd>
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
};

struct ToolResult {
  int exit_code = 0;
  std::string output;  // its log, standard output and errors
};

// Runs compilecache-agent on a volume, in a Job (tool_job.hpp) that is deleted at the end, and
// waits for it; `progress` hears why that takes long. kTimeout: not within the deadline; other
// errors are the API server's: no right to make Jobs, or to read their pods and logs.
Result<ToolResult> run_tool(const Cluster& cluster, const ToolRun& run, std::ostream& progress);

}  // namespace compilecache::cli
