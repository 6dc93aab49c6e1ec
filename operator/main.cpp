#include <iostream>

#include "operator/app.hpp"
#include "operator/explain_command.hpp"
#include "operator/inject_command.hpp"
#include "operator/options.hpp"

int main(int argc, char** argv) {
  const auto parsed = compilecache::controller::parse_options(argc, argv);
  if (parsed.exit) return parsed.exit_code;
  if (parsed.inject) {
    return compilecache::controller::run_inject(*parsed.inject, std::cin, std::cout, std::cerr);
  }
  if (parsed.explain) {
    return compilecache::controller::run_explain(*parsed.explain, std::cout, std::cerr);
  }
  return compilecache::controller::run_operator(parsed.options);
}
