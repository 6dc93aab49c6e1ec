#include "base/version.hpp"

namespace compilecache {

std::string version_line(std::string_view program) {
  return std::string(program) + " " + COMPILECACHE_VERSION + " (commit " + build_commit() + ")";
}

}  // namespace compilecache
