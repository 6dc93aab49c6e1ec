#include "base/shared_values.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace compilecache {
namespace {

TEST(SharedValues, EqualValuesAreOne) {
  SharedValues<std::string> values;
  const auto a = values.get("a"), again = values.get("a"), b = values.get("b");
  EXPECT_EQ(a, again);
  EXPECT_NE(a, b);
  EXPECT_EQ(*b, "b");
  EXPECT_EQ(values.size(), 2U);
}

TEST(SharedValues, WhatNobodyHoldsGoes) {
  SharedValues<int> values;
  std::vector<std::shared_ptr<const int>> held;
  for (int i = 0; i < 10'000; ++i) {
    const auto value = values.get(i);
    if (i % 100 == 0) held.push_back(value);
  }
  EXPECT_LE(values.size(), 2 * held.size());
  for (size_t i = 0; i < held.size(); ++i) EXPECT_EQ(values.get(int(i) * 100), held[i]);
}

TEST(SharedValues, ABurstOfValuesIsForgottenWithoutNewOnes) {
  SharedValues<int> values;
  const auto kept = values.get(-1);
  {
    std::vector<std::shared_ptr<const int>> burst;
    for (int i = 0; i < 10'000; ++i) burst.push_back(values.get(i));
  }
  for (int i = 0; i < 10'000; ++i) EXPECT_EQ(values.get(-1), kept);
  EXPECT_EQ(values.size(), 1U);
}

struct Parsed {
  std::string text;
  size_t length;
};
struct ByText {
  using is_transparent = void;
  static std::string_view text_of(const Parsed& parsed) { return parsed.text; }
  static std::string_view text_of(std::string_view text) { return text; }
  template <typename A, typename B>
  bool operator()(const A& a, const B& b) const {
    return text_of(a) < text_of(b);
  }
};

TEST(SharedValues, WhatIsKnownIsNotMadeAgain) {
  SharedValues<Parsed, ByText> values;
  int made = 0;
  const auto parse = [&](std::string_view text) {
    return values.find_or_make(text, [&] {
      ++made;
      return Parsed{std::string(text), text.size()};
    });
  };
  const auto first = parse("some text");
  EXPECT_EQ(parse("some text"), first);
  EXPECT_EQ(first->length, 9U);
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace compilecache
