#pragma once

#include <string>

namespace CLI {
class App;
}

// The help of commands in the layout that users of kubectl know: what it does, Usage, Examples,
// Options, exit status.

namespace compilecache::cli {

// Texts that are never freed. Lines of `about` are wrapped; those that begin with a blank, and all
// of `examples`, stay as they are. Empty ones are left out.
struct CommandHelp {
  const char* about = "";
  const char* examples = "";
  const char* exit_status = "";
};

// Not thread-safe; before the command line is parsed.
void set_help(CLI::App& command, const CommandHelp& help);

// What --help prints.
std::string help_of(const CLI::App& command);

// "kubectl compilecache status"
std::string full_name(const CLI::App& command);

}  // namespace compilecache::cli
