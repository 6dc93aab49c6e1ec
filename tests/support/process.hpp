#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

// Other programs, for tests.
//
//   const ProcessResult result = run_process({"tar", "-tf", path});
//   ASSERT_EQ(result.exit_code, 0) << result.err;

namespace compilecache::testing {

struct ProcessResult {
  int exit_code = -1;  // -1: could not be started, or ran past the time limit and was killed
  std::string out;
  std::string err;
};

ProcessResult run_process(const std::vector<std::string>& command, const std::string& input = "",
                          std::chrono::seconds limit = std::chrono::seconds(120));

}  // namespace compilecache::testing
