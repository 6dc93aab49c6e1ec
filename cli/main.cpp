#include <unistd.h>

#include <iostream>

#include "cli/command_line.hpp"

int main(int argc, char** argv) {
  using namespace compilecache::cli;
  CommandLine asked = parse_command_line(argc, argv);
  if (asked.status) asked.status->terminal = ::isatty(STDOUT_FILENO) == 1;
  if (asked.report) asked.report->terminal = ::isatty(STDOUT_FILENO) == 1;
  if (asked.inject) return run_inject(*asked.inject, std::cin, std::cout, std::cerr);
  if (asked.explain) return run_explain(*asked.explain, std::cout, std::cerr);
  if (asked.status) return run_status(*asked.status, std::cout, std::cerr);
  if (asked.prewarm) return run_prewarm(*asked.prewarm, std::cin, std::cout, std::cerr);
  if (asked.report) return run_report(*asked.report, std::cout, std::cerr);
  if (asked.verb) return asked.verb();
  return asked.exit_code;
}
