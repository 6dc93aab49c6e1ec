#include "frameworks/glob.hpp"

#include <gtest/gtest.h>

namespace compilecache::frameworks {
namespace {

struct GlobCase {
  const char* pattern;
  const char* path;
  bool matches;
};

TEST(Glob, MatchesByComponents) {
  const GlobCase cases[] = {
      {"fxgraph/*/*", "fxgraph/ab/KEY", true},
      {"fxgraph/*/*", "fxgraph/ab", false},
      {"fxgraph/*/*", "fxgraph/ab/KEY/file", false},
      {"aotautograd/*", "aotautograd/KEY", true},
      {"aotautograd/*", "other/KEY", false},
      {"**/*.so", "x.so", true},
      {"**/*.so", "a/b/x.so", true},
      {"**/*.so", "a/b/x.so.1", false},
      {"locks/**", "locks", true},
      {"locks/**", "locks/a/b", true},
      {"a/**/z", "a/z", true},
      {"a/**/z", "a/b/c/z", true},
      {"a/**/z", "a/b/c/y", false},
      {"tmp????????", "tmpabcdefgh", true},
      {"tmp????????", "tmpabcdefghi", false},
      {"triton/*/*/__grp__*.json", "triton/0/KEY/__grp__kernel.json", true},
      {"*", "", false},
  };
  for (const GlobCase& c : cases) {
    EXPECT_EQ(Glob(c.pattern).matches(c.path), c.matches) << c.pattern << " on " << c.path;
  }
}

TEST(Glob, AStarTakesAsMuchAsItMust) {
  EXPECT_TRUE(name_matches("*a*b", "xaayab"));
  EXPECT_TRUE(name_matches("*_CxxBuild", "c_CxxBuild_CxxBuild"));
  EXPECT_FALSE(name_matches("*a*b", "xaaya"));
  EXPECT_TRUE(name_matches(".*.tmp", ".12.34.tmp"));
  EXPECT_FALSE(name_matches("?", ""));
}

TEST(Glob, ManyStarsAreNotSlow) {
  const std::string name(2000, 'a');
  EXPECT_FALSE(name_matches("*a*a*a*a*a*a*a*a*b", name));
}

}  // namespace
}  // namespace compilecache::frameworks
