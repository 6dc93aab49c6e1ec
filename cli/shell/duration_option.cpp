#include "cli/shell/duration_option.hpp"

#include <CLI/CLI.hpp>

#include "base/duration.hpp"

namespace compilecache::cli {
namespace {

constexpr std::chrono::hours kLongest{24};

}  // namespace

Result<std::chrono::seconds> parse_timeout(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) {
    return fail(ErrorCode::kInvalid, "\"" + text + "\" has no unit: write " + text + "s");
  }
  const auto duration = parse_duration(text);
  if (!duration) {
    return fail(ErrorCode::kInvalid, "\"" + text + "\" is no duration: write 30s, 15m or 1h30m");
  }
  if (*duration < std::chrono::seconds(1) || *duration > kLongest) {
    return fail(ErrorCode::kInvalid, "\"" + text + "\" is not between 1s and 24h");
  }
  return std::chrono::duration_cast<std::chrono::seconds>(*duration);
}

CLI::Option* add_duration(CLI::App& command, const char* name, std::chrono::seconds& value,
                          const char* about) {
  const std::string option = name;
  return command
      .add_option_function<std::string>(
          option,
          [&value, option](const std::string& text) {
            const auto read = parse_timeout(text);
            if (!read) throw CLI::ValidationError(option, read.error().message);
            value = *read;
          },
          about)
      ->type_name("duration")
      ->default_str(format_duration(value));
}

}  // namespace compilecache::cli
