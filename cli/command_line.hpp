#pragma once

#include <optional>

#include "cli/archive_verbs.hpp"
#include "cli/explain/explain_command.hpp"
#include "cli/inject/inject_command.hpp"
#include "cli/prewarm/prewarm_command.hpp"
#include "cli/report/report_command.hpp"
#include "cli/status/status_command.hpp"

// The command line of kubectl-compilecache.

namespace compilecache::cli {

struct CommandLine {
  // The command to run; none where the program is to end at once.
  std::optional<InjectOptions> inject;
  std::optional<ExplainOptions> explain;
  std::optional<StatusOptions> status;
  std::optional<PrewarmOptions> prewarm;
  std::optional<ReportOptions> report;
  Verb verb;  // on archives, or about the program
  // The exit status in that case: 0 after help or --version, 2 after a wrong command line.
  int exit_code = 0;
};

// Prints the output of help and --version, and the faults of the command line.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace compilecache::cli
