#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "base/error.hpp"
#include "kube/client.hpp"

namespace compilecache::cli {

struct WatchedOutput {
  bool terminal = false;  // each text takes the place of the one before
  std::string output;     // as -o says it; documents of YAML are kept apart
};

// Prints what `read` returns, and again whenever it has changed, until the program is interrupted.
// An API server that does not answer for a while is only mentioned. Returns 1 if the first reading
// fails.
int watch_text(const kube::Client& client, const std::function<Result<std::string>()>& read,
               const WatchedOutput& how, std::ostream& out, std::ostream& errors);

}  // namespace compilecache::cli
