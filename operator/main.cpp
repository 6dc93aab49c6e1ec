#include "operator/app.hpp"
#include "operator/options.hpp"

int main(int argc, char** argv) {
  const auto parsed = compilecache::controller::parse_options(argc, argv);
  if (parsed.exit) return parsed.exit_code;
  return compilecache::controller::run_operator(parsed.options);
}
