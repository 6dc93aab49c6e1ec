#include "frameworks/held_paths.hpp"

#include <gtest/gtest.h>

namespace compilecache::frameworks {
namespace {

TEST(HeldPaths, HasWhatWasAdded) {
  HeldPaths held({"fxgraph/ab/one", "top"});
  held.add({"fxgraph/cd/two", "top"});
  for (const char* path : {"fxgraph/ab/one", "fxgraph/cd/two", "top"})
    EXPECT_TRUE(held.contains(path)) << path;
  for (const char* path : {"fxgraph/ab", "fxgraph/ab/two", "fxgraph", "", "one"})
    EXPECT_FALSE(held.contains(path)) << path;
}

TEST(HeldPaths, HasTheDirectoriesOfItsFiles) {
  const HeldPaths held({"a/b/c/one", "a/b/c/two", "a/d/three", "top"});
  for (const char* path : {"a", "a/b", "a/b/c", "a/d"})
    EXPECT_TRUE(held.has_directory(path)) << path;
  for (const char* path : {"b", "a/b/c/one", "a/c", "top", ""})
    EXPECT_FALSE(held.has_directory(path)) << path;
}

TEST(HeldPaths, OfNothingHasNothing) {
  const HeldPaths held;
  EXPECT_FALSE(held.contains("a"));
  EXPECT_FALSE(held.has_directory("a"));
}

}  // namespace
}  // namespace compilecache::frameworks
