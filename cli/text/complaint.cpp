#include "cli/text/complaint.hpp"

#include <ostream>

#include "base/printable.hpp"

namespace compilecache::cli {

int complain(const Error& error, std::ostream& errors, int status) {
  errors << "Error: " << printable(error.message) << "\n";
  return status;
}

}  // namespace compilecache::cli
