#include "cli/shell/output_option.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/strings.hpp"
#include "cli/text/structured_output.hpp"

namespace compilecache::cli {
namespace {

constexpr char kTemplate[] = "jsonpath=";

}  // namespace

CLI::Option* add_output(CLI::App& command, std::string& output, std::vector<std::string> words,
                        const char* about) {
  const auto check = [words](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    if (text.starts_with(kTemplate)) {
      const auto read = check_output(text);
      return read ? "" : read.error().message;
    }
    return text + " not in {" + join(words, ",") + "," + kTemplate + "}";
  };
  const std::string choices = "{" + join(words, ",") + "," + kTemplate + "}";
  return command.add_option("-o,--output", output, about)->check(CLI::Validator(check, choices));
}

}  // namespace compilecache::cli
