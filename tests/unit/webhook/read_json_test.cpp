#include "webhook/read_json.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <string>
#include <utility>

namespace compilecache::webhook {
namespace {

using ::testing::HasSubstr;

TEST(ReadJson, IntegersAreReadExactly) {
  for (const char* text : {"0", "-1", "-9223372036854775808", "18446744073709551615"}) {
    const auto tree = read_json(text);
    ASSERT_TRUE(tree) << text << ": " << tree.error().message;
    EXPECT_EQ(to_text(*tree), text);
  }
}

TEST(ReadJson, OtherNumbersAreTheNearestDouble) {
  const std::pair<const char*, double> cases[] = {
      {"18446744073709551616", 0x1p64},
      {"0.1", 0.1},
      {"9007199254740993.0", 0x1p53},  // a tie goes to the even one
      {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
      {"1.7976931348623157e308", std::numeric_limits<double>::max()},
      {"0e60", 0},
      {"-0.000e-400", -0.0},
  };
  for (const auto& [text, value] : cases) {
    const auto tree = read_json(text);
    ASSERT_TRUE(tree) << text << ": " << tree.error().message;
    EXPECT_EQ(tree->GetDouble(), value) << text;
  }
}

TEST(ReadJson, ANumberBeyondWhatADoubleHoldsIsRefused) {
  for (const std::string text : {"9e308", "-9e308", "1e-400", "0.000000000001e-2147483639"}) {
    const auto tree = read_json("[" + text + "]");
    ASSERT_FALSE(tree) << text;
    EXPECT_EQ(tree.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(tree.error().message, HasSubstr("a number that no double can hold")) << text;
  }
}

TEST(ReadJson, ATextThatEndsWithinACharacterIsReadNoFurther) {
  for (const char* end : {"\xE2", "\xE2\x82", "\xF0", "\xF0\x9F", "\xF0\"", "\xE2\""}) {
    std::string text = R"({"a member of some length": ")" + std::string(end);
    text.shrink_to_fit();
    const auto tree = read_json(text);
    ASSERT_FALSE(tree);
    EXPECT_EQ(tree.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(tree.error().message, HasSubstr("it ends within a character"));
  }
}

TEST(ReadJson, ATextMayEndWithACharacterOfSeveralBytes) {
  const auto tree = read_json("\"\xF0\x9F\x90\xA7\"");
  ASSERT_TRUE(tree) << tree.error().message;
  EXPECT_EQ(text_of(*tree), "\xF0\x9F\x90\xA7");
}

}  // namespace
}  // namespace compilecache::webhook
