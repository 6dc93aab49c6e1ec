#pragma once

#include <cstdio>
#include <deque>
#include <string>

// Standard error of the program, kept in memory: the latest lines of everybody's log, each with the
// process that wrote it. Made before anything is logged, and lives as long as the program.

namespace compilecache::simulation {

class LogTail {
 public:
  // `shown`: lines go to the real standard error, too.
  LogTail(size_t lines, bool shown);
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  [[nodiscard]] std::string text() const;

 private:
  static ssize_t write(void* self, const char* bytes, size_t count);

  const size_t most_;
  const bool shown_;
  std::deque<std::string> lines_;
  std::string begun_;  // a line without its end
};

}  // namespace compilecache::simulation
