#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

// Structured logging: one line for each event, a sentence and fields, on standard error.
//
//   log_info("archive loaded", {{"pod", pod}, {"milliseconds", std::to_string(ms)}});
//
// writes   2026-01-02T15:04:05.678Z INFO archive loaded pod=web-1 milliseconds=37
//
// or, after log_init(LogFormat::kJson), one JSON object a line. Thread-safe.

namespace compilecache {

enum class LogFormat { kText, kJson };
enum class LogLevel { kDebug, kInfo, kWarn, kError };

using LogField = std::pair<std::string_view, std::string>;

void log_init(LogFormat format, LogLevel level);
void log_debug(std::string_view message, std::initializer_list<LogField> fields = {});
void log_info(std::string_view message, std::initializer_list<LogField> fields = {});
void log_warn(std::string_view message, std::initializer_list<LogField> fields = {});
void log_error(std::string_view message, std::initializer_list<LogField> fields = {});

}  // namespace compilecache
