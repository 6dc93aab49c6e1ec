#include "cli/shell/command_help.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <vector>

#include "base/strings.hpp"
#include "cli/shell/option_values.hpp"

namespace compilecache::cli {
namespace {

constexpr size_t kWidth = 100, kWidestOption = 34;

// The text at words, each line but the first indented.
std::string wrapped(const std::string& text, size_t indent) {
  std::string out;
  size_t column = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    out += (column > indent ? " " : "") + word;
    column += word.size() + (column > indent ? 1 : 0);
  }
  return out;
}

// Paragraphs are kept apart; lines that begin with a blank stay as they are.
std::string paragraphs(const std::string& text) {
  std::string out, pending;
  const auto flush = [&] {
    if (!pending.empty()) out += wrapped(pending, 0) + "\n";
    pending.clear();
  };
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty() && line.front() != ' ') {
      pending += " " + line;
      continue;
    }
    flush();
    out += line + "\n";
  }
  flush();
  out.erase(out.find_last_not_of('\n') + 1);
  return out.empty() ? out : out + "\n";
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text.back() == '.' ? text : text + ".";
}

// "string", "duration", "json|yaml" of "TEXT:{json,yaml}"; empty: it takes none.
std::string value_of(const CLI::Option& option) {
  if (const auto choices = choices_of(option); !choices.empty()) return join(choices, "|");
  const std::string type = option.get_type_name(), name = type.substr(0, type.find(':'));
  if (name == "TEXT") return "string";
  return CLI::detail::to_lower(name);
}

// "  -n, --namespace string"; those without a letter stand under the words of the others.
std::string option_head(const CLI::Option& option) {
  std::string short_name, long_name;
  if (!option.get_snames().empty()) short_name = "-" + option.get_snames().front();
  if (!option.get_lnames().empty()) long_name = "--" + option.get_lnames().front();
  std::string head =
      "  " + (short_name.empty() ? "    " : short_name + (long_name.empty() ? "" : ", "));
  head += long_name;
  const std::string value = value_of(option);
  return head + (value.empty() ? "" : " " + value);
}

struct Row {
  std::string head, text;
};

std::string rows_of(const std::vector<Row>& rows, size_t widest) {
  size_t width = 0;
  for (const Row& row : rows) {
    if (row.head.size() <= widest) width = std::max(width, row.head.size());
  }
  width += 3;
  std::string out;
  for (const Row& row : rows) {
    out += row.head;
    if (!row.text.empty()) {
      out += row.head.size() + 2 < width ? std::string(width - row.head.size(), ' ')
                                         : "\n" + std::string(width, ' ');
      out += wrapped(row.text, width);
    }
    out += "\n";
  }
  return out;
}

std::string options_of(const CLI::App& command) {
  std::vector<Row> rows;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) text += " (default " + option->get_default_str() + ")";
    rows.push_back({option_head(*option), text});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const auto name = [](const Row& row) { return row.head.substr(row.head.find("--")); };
    return name(a) < name(b);
  });
  return rows.empty() ? "" : "\nOptions:\n" + rows_of(rows, kWidestOption);
}

std::string arguments_of(const CLI::App& command) {
  std::vector<Row> rows;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    rows.push_back({"  " + option->get_name(true), option->get_description()});
  }
  return rows.empty() ? "" : "\nArguments:\n" + rows_of(rows, kWidestOption);
}

bool takes_many(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
}

// "kubectl compilecache copy CACHE --to string [options]"
std::string usage_of(const CLI::App& command) {
  std::string usage = full_name(command);
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true) + (takes_many(*option) ? "..." : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional() || !option->get_required()) continue;
    usage += " --" + option->get_lnames().front() + " " + value_of(*option);
  }
  const bool has_commands = !command.get_subcommands({}).empty();
  return "\nUsage:\n  " + usage + (has_commands ? " COMMAND" : "") + " [options]\n";
}

// Commands by their groups, in the order in which those were first named.
std::string commands_of(const CLI::App& command) {
  std::vector<std::string> groups;
  std::vector<const CLI::App*> all = command.get_subcommands({});
  for (const CLI::App* one : all) {
    const std::string& group = one->get_group();
    if (group.empty() || std::find(groups.begin(), groups.end(), group) != groups.end()) continue;
    groups.push_back(group);
  }
  std::string out;
  for (const std::string& group : groups) {
    std::vector<Row> rows;
    for (const CLI::App* one : all) {
      if (one->get_group() == group)
        rows.push_back({"  " + one->get_name(), one->get_description()});
    }
    out +=
        "\n" + (group == "Subcommands" ? "Other commands" : group) + ":\n" + rows_of(rows, kWidth);
  }
  return out;
}

std::string section(const char* title, const std::string& text) {
  return text.empty() ? "" : std::string("\n") + title + ":\n" + text;
}

std::string text_of(const CLI::App& command, const CommandHelp& help) {
  std::string text = sentence(command.get_description()) + "\n";
  const std::string about = paragraphs(help.about);
  if (!about.empty()) text += "\n" + about;
  text += usage_of(command) + section("Examples", help.examples) + commands_of(command) +
          arguments_of(command) + options_of(command);
  if (*help.exit_status != '\0') {
    text += "\nExit status:\n  " + wrapped(help.exit_status, 2) + "\n";
  }
  if (!command.get_subcommands({}).empty()) {
    text += "\nUse \"" + full_name(command) + " help COMMAND\" for more about a command.\n";
  }
  return text;
}

class KubectlLayout : public CLI::FormatterBase {
 public:
  explicit KubectlLayout(const CommandHelp& help) : help_(help) {}
  std::string make_help(const CLI::App* command, std::string, CLI::AppFormatMode) const override {
    return text_of(*command, help_);
  }

 private:
  CommandHelp help_;
};

}  // namespace

void set_help(CLI::App& command, const CommandHelp& help) {
  command.formatter(std::make_shared<KubectlLayout>(help));
  command.get_help_ptr()->description("show this help");
}

std::string help_of(const CLI::App& command) {
  // App::help() is that of the command that was chosen.
  return command.get_formatter()->make_help(&command, "", CLI::AppFormatMode::Normal);
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

}  // namespace compilecache::cli
