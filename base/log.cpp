#include "base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace compilecache {
namespace {

std::atomic<LogFormat> g_format{LogFormat::kText};

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = std::make_shared<spdlog::logger>("compilecache",
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *instance;
}

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text, millis);
}

std::string json_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"=\n\t\\") != std::string_view::npos;
}

std::string format_line(const char* level, std::string_view message,
                        std::initializer_list<LogField> fields) {
  if (g_format == LogFormat::kJson) {
    std::string line = fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"message\":{}", timestamp(),
                                   level, json_quoted(message));
    for (const auto& [key, value] : fields) {
      line += fmt::format(",{}:{}", json_quoted(key), json_quoted(value));
    }
    return line + "}";
  }
  std::string line = fmt::format("{} {} {}", timestamp(), level, message);
  for (const auto& [key, value] : fields) {
    line += fmt::format(" {}={}", key, needs_quotes(value) ? json_quoted(value) : value);
  }
  return line;
}

void write(spdlog::level::level_enum severity, const char* level, std::string_view message,
           std::initializer_list<LogField> fields) {
  if (!logger().should_log(severity)) return;
  logger().log(severity, "{}", format_line(level, message, fields));
}

}  // namespace

void log_init(LogFormat format, LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  g_format = format;
  logger().set_level(kLevels[static_cast<int>(level)]);
}

void log_debug(std::string_view message, std::initializer_list<LogField> fields) {
  write(spdlog::level::debug, "DEBUG", message, fields);
}
void log_info(std::string_view message, std::initializer_list<LogField> fields) {
  write(spdlog::level::info, "INFO", message, fields);
}
void log_warn(std::string_view message, std::initializer_list<LogField> fields) {
  write(spdlog::level::warn, "WARN", message, fields);
}
void log_error(std::string_view message, std::initializer_list<LogField> fields) {
  write(spdlog::level::err, "ERROR", message, fields);
}

}  // namespace compilecache
