#pragma once

#include <optional>

#include "cli/explain_command.hpp"
#include "cli/inject_command.hpp"

// The command line of kubectl-compilecache.

namespace compilecache::cli {

struct CommandLine {
  // What to do; neither when the program is to end at once.
  std::optional<InjectOptions> inject;
  std::optional<ExplainOptions> explain;
  // Then: after --help or --version 0, after a wrong command line 2.
  int exit_code = 0;
};

// Prints what --help and --version ask for, and what is wrong, itself.
CommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace compilecache::cli
