#include "base/version.hpp"

#include "base/release.hpp"

namespace compilecache {

std::string version_line(std::string_view program) {
  return std::string(program) + " " + release() + " (commit " + build_commit() + ")";
}

}  // namespace compilecache
