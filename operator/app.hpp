#pragma once

#include "operator/options.hpp"

// The operator's process: everything is made, started in order, and taken down in the reverse one.

namespace compilecache::controller {

// Serves until SIGTERM or SIGINT. The exit status; what went wrong is in the log. Call it before
// any thread has been started: it blocks those signals for all of them.
int run_operator(const OperatorOptions& options);

}  // namespace compilecache::controller
