#include "tests/support/paths.hpp"

namespace compilecache::testing {

std::string in_tree(const std::string& path) { return std::string(CC_SOURCE_DIR "/") + path; }

std::string in_build(const std::string& path) { return std::string(CC_BINARY_DIR "/") + path; }

std::string testdata(const std::string& path) { return in_tree("tests/testdata/") + path; }

}  // namespace compilecache::testing
