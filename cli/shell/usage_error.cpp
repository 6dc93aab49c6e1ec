#include "cli/shell/usage_error.hpp"

#include <CLI/CLI.hpp>
#include <vector>

#include "base/near_names.hpp"
#include "cli/shell/command_help.hpp"

namespace compilecache::cli {
namespace {

std::string meant(const std::string& text, const std::vector<std::string>& names) {
  const auto near = near_names(text, names);
  return near.empty() ? "" : "; did you mean \"" + near.front() + "\"?";
}

std::vector<std::string> long_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The first word that no option and no argument of the command takes.
std::string unexpected_word(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-') || word == "-") return "unexpected argument \"" + word + "\"";
  const std::string name = word.substr(0, word.find('='));
  const auto options = long_options(command);
  // "--image" of a command that has "--tool-image".
  for (const std::string& option : options) {
    if (name.starts_with("--") && option.ends_with(name.substr(1)))
      return "unknown option \"" + name + "\"; did you mean \"" + option + "\"?";
  }
  return "unknown option \"" + name + "\"" + meant(name, options);
}

// The first that nothing takes, an option before others; empty: there is none.
std::string not_taken(const CLI::App& command) {
  const auto rest = command.remaining();
  for (const std::string& word : rest) {
    if (word.starts_with('-')) return word;
  }
  return rest.empty() ? "" : rest.front();
}

// CLI11 says what type of value is missing, in words of its own.
std::string in_words(const CLI::ParseError& error) {
  const std::string text = error.what();
  const bool no_value = text.ends_with(" missing") && text.find(" required ") != std::string::npos;
  return no_value ? text.substr(0, text.find(':')) + " needs a value" : text;
}

const CLI::App& chosen(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed.front();
}

}  // namespace

std::string unknown_command(const CLI::App& app, const std::string& word) {
  if (word.starts_with('-')) return "Error: " + unexpected_word(app, word);
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands({})) {
    if (!one->get_group().empty()) names.push_back(one->get_name());
  }
  return "Error: unknown command \"" + word + "\" for \"" + full_name(app) + "\"" +
         meant(word, names);
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        const std::string& word) {
  const CLI::App& command = chosen(app);
  std::string text = "Error: " + in_words(error);
  if (&command == &app && !word.empty()) {
    text = unknown_command(app, word);
  } else if (const auto rest = not_taken(command); !rest.empty()) {
    // A misspelt option is also why a required one is missing.
    text = "Error: " + unexpected_word(command, rest);
  }
  return text + "\nSee '" + full_name(command) + " --help' for usage.\n";
}

}  // namespace compilecache::cli
