#include "tests/simulation/log_tail.hpp"

#include <unistd.h>

#include "tests/simulation/os/scheduler.hpp"

namespace compilecache::simulation {

LogTail::LogTail(size_t lines, bool shown) : most_(lines), shown_(shown) {
  cookie_io_functions_t functions{};
  functions.write = &LogTail::write;
  stderr = ::fopencookie(this, "w", functions);
  ::setvbuf(stderr, nullptr, _IOLBF, 1U << 12);
}

ssize_t LogTail::write(void* self, const char* bytes, size_t count) {
  auto& tail = *static_cast<LogTail*>(self);
  tail.begun_.append(bytes, count);
  size_t end = 0;
  while ((end = tail.begun_.find('\n')) != std::string::npos) {
    std::string line = is_scheduled() ? "[" + current_name() + "] " : "";
    line.append(tail.begun_, 0, end + 1);
    tail.begun_.erase(0, end + 1);
    if (tail.shown_) (void)!::write(STDERR_FILENO, line.data(), line.size());
    tail.lines_.push_back(std::move(line));
    if (tail.lines_.size() > tail.most_) tail.lines_.pop_front();
  }
  return static_cast<ssize_t>(count);
}

std::string LogTail::text() const {
  std::string text;
  for (const std::string& line : lines_) text += line;
  return text;
}

}  // namespace compilecache::simulation
