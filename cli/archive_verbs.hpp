#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace CLI {
class App;
}

namespace compilecache::cli {

struct CommandHelp;

// Runs the parsed command: its exit status.
using Verb = std::function<int()>;

// Commands on archives, on a command line: archives, copy, delete, export, import, verify.
// Made of the program's CLI::App before it parses the command line; afterwards chosen() says what
// is to run. Must outlive the parsing. They use the standard streams.
class ArchiveVerbs {
 public:
  explicit ArchiveVerbs(CLI::App& app);

  // Empty: none of them.
  [[nodiscard]] Verb chosen() const;

 private:
  struct Entry {
    CLI::App* command;
    Verb run;
  };
  template <typename Options>
  std::shared_ptr<Options> add(CLI::App& app, const char* name, const char* about,
                               const CommandHelp& help, int (*run)(const Options&));
  void add_archives(CLI::App& app);
  void add_delete(CLI::App& app);
  void add_copy(CLI::App& app);
  void add_export(CLI::App& app);
  void add_import(CLI::App& app);
  void add_sign(CLI::App& app);
  void add_verify(CLI::App& app);

  std::vector<Entry> entries_;
};

}  // namespace compilecache::cli
