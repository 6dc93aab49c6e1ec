#pragma once

#include <iosfwd>

#include "base/error.hpp"

namespace compilecache::cli {

// Prints `Error: MESSAGE`, as kubectl has it, safe for a terminal, and returns the status, with
// which the program is to exit.
int complain(const Error& error, std::ostream& errors, int status = 1);

}  // namespace compilecache::cli
