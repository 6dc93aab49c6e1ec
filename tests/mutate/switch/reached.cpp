// In each test program: $CC_MUTANT_FOLDER gets a file for each test with the numbers of the changes
// that it, or a program that it starts, reaches.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/mutate/switch/mutant.hpp"

namespace {

class Reached : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo& test) override {
    std::string name = std::string(test.test_suite_name()) + "." + test.name();
    for (char& c : name) c = c == '/' ? '%' : c;
    const std::string path = std::string(std::getenv("CC_MUTANT_FOLDER")) + "/" + name;
    ::setenv("CC_MUTANT_REACHED", path.c_str(), 1);
    for (int i = 0; i <= CC_MUTANTS; ++i) compilecache::mutant::reached[i] = false;
  }
};

const bool kInstalled = [] {
  if (std::getenv("CC_MUTANT_FOLDER") == nullptr) return false;
  ::testing::UnitTest::GetInstance()->listeners().Append(new Reached);
  return true;
}();

}  // namespace
