#pragma once

#include <string>

namespace compilecache::testing {

// Where the tree under test lies and what was built of it. Only paths.cpp is compiled with these
// places in it, so that a tree elsewhere finds all other tests in the compiler's cache.
//
//   std::ifstream settings(testing::in_tree("config/settings.yaml"));
//   run_process({testing::in_build("agent/compilecache-agent"), "version"});
//
// `path` is relative, "" for the folder itself. Thread-safe.
std::string in_tree(const std::string& path);
std::string in_build(const std::string& path);

// in_tree("tests/testdata/" + path)
std::string testdata(const std::string& path);

}  // namespace compilecache::testing
