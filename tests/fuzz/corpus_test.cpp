#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "targets.hpp"
#include "tests/support/paths.hpp"

// The corpora without a fuzzer: what was found once is tried in every build.

namespace compilecache::fuzz {
namespace {

std::vector<uint8_t> read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Corpus, EveryInputOfEveryTargetHolds) {
  for (const auto& [name, target] : targets()) {
    int inputs = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(testing::in_tree("tests/fuzz/corpus/" + name))) {
      std::vector<uint8_t> input = read(entry.path());
      target(input);
      // And what is near: each byte changed, and the end cut off.
      for (size_t i = 0; i < input.size(); i += 1 + input.size() / 60) {
        const uint8_t original = input[i];
        input[i] ^= 0x41;
        target(input);
        input[i] = original;
        target({input.data(), i});
      }
      ++inputs;
    }
    EXPECT_GE(inputs, 2) << name;
  }
}

}  // namespace
}  // namespace compilecache::fuzz
