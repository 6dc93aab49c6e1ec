#include "api/words.hpp"

#include <gtest/gtest.h>

#include <set>

#include "api/agent_api.hpp"
#include "api/choices.hpp"
#include "api/compile_cache_archive.hpp"
#include "api/outcomes.hpp"

namespace compilecache::api {
namespace {

// `last`: the enumeration's last value, so that a table that lacks one is noticed.
template <typename Enum>
void expect_whole(Enum last) {
  std::set<std::string_view> words, labels;
  int next = 0;
  for (const auto& known : kWords<Enum>) {
    EXPECT_EQ(static_cast<int>(known.value), next++) << known.word;
    EXPECT_FALSE(known.word.empty());
    EXPECT_EQ(parse_word<Enum>(known.word), known.value);
    EXPECT_EQ(to_string(known.value), known.word);
    EXPECT_EQ(metric_label(known.value), known.metric);
    words.insert(known.word);
    labels.insert(known.metric);
  }
  EXPECT_EQ(next, static_cast<int>(last) + 1);
  EXPECT_EQ(words.size(), kWords<Enum>.size());
  EXPECT_EQ(labels.size(), kWords<Enum>.size());
  EXPECT_EQ(parse_word<Enum>(""), std::nullopt);
  EXPECT_EQ(parse_word<Enum>("of another release"), std::nullopt);
  EXPECT_EQ(to_string(std::optional<Enum>()), "");
}

TEST(Words, EachTableIsWhole) {
  expect_whole(Outcome::kDoesNotExist);
  expect_whole(Match::kCompatible);
  expect_whole(LoadSource::kIndex);
  expect_whole(LoadOutcome::kFailed);
  expect_whole(SaveOutcome::kFailed);
  expect_whole(Effect::kUnknown);
  expect_whole(SweepOutcome::kFailed);
  expect_whole(Mode::kForceCold);
  expect_whole(SavePolicy::kNever);
  expect_whole(LoadDecision::kWait);
  expect_whole(SaveDecision::kBusy);
  expect_whole(SweepPhase::kFail);
  expect_whole(DistrustReason::kVerificationFailed);
}

TEST(Words, AreAsTheyAreWritten) {
  EXPECT_EQ(to_string(Outcome::kDoesNotExist), "DOES_NOT_EXIST");
  EXPECT_EQ(to_string(LoadOutcome::kMissing), "none");
  EXPECT_EQ(metric_label(LoadOutcome::kMissing), "missing");
  EXPECT_FALSE(parse_word<Mode>("readwrite"));
  EXPECT_EQ(all_words<SavePolicy>(), "OnChange, Once, Never");
}

}  // namespace
}  // namespace compilecache::api
