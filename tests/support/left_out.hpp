#pragma once

#include <cstdlib>
#include <iostream>
#include <string>

// For a test that a whole run leaves out by choice, since it takes long: it passes, and
// tests/run.sh counts it as left out. A test that cannot run is skipped instead (GTEST_SKIP), which
// CI does not allow.
//
//   if (left_out("CC_E2E_LONG", "takes minutes")) return;

namespace compilecache::testing {

// Unless that variable is set.
[[nodiscard]] inline bool left_out(const std::string& variable, const std::string& why) {
  if (std::getenv(variable.c_str()) != nullptr) return false;
  std::cout << "left out: " << why << "; " << variable << "=1 runs it\n";
  return true;
}

// Unless what it is about is there, which an older API server does not have.
[[nodiscard]] inline bool left_out_unless(bool is_there, const std::string& why) {
  if (!is_there) std::cout << "left out: " << why << "\n";
  return !is_there;
}

}  // namespace compilecache::testing
