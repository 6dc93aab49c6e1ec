#pragma once

#include "operator/options.hpp"

// The operator's process: everything is made here, started in order, and stopped in the reverse
// order.

namespace compilecache::controller {

// Serves until SIGTERM or SIGINT and returns the exit status; errors are logged. Call it before any
// thread is started, since it blocks those signals for all of them.
int run_operator(const OperatorOptions& options);

}  // namespace compilecache::controller
