#include "tests/mutate/switch/mutant.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace compilecache::mutant {
namespace {

int number_of(const char* text) { return text == nullptr ? 0 : std::atoi(text); }

}  // namespace

const int chosen = number_of(std::getenv("CC_MUTANT"));
std::atomic<bool> reached[CC_MUTANTS + 1];

void note_reached(int number) {
  const char* const path = std::getenv("CC_MUTANT_REACHED");
  if (path == nullptr) return;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return;
  char line[16];
  const int length = std::snprintf(line, sizeof line, "%d\n", number);
  [[maybe_unused]] const ssize_t written = ::write(file, line, static_cast<size_t>(length));
  ::close(file);
}

}  // namespace compilecache::mutant
