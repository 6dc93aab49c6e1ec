#include <gtest/gtest.h>

#include <set>

#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "api/outcomes.hpp"
#include "api/reasons.hpp"

namespace compilecache::api {
namespace {

TEST(Messages, RoundTrip) {
  SaveAnswer answer;
  answer.decision = "granted";
  answer.fence = 7;
  answer.key = {{"GPUProduct", "G"}};
  answer.condemned = {"sha256:aa"};
  const auto back = parse<SaveAnswer>(dump(answer));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->decision, "granted");
  EXPECT_EQ(back->fence, 7);
  EXPECT_EQ(back->key, answer.key);
  EXPECT_EQ(back->condemned, answer.condemned);
}

TEST(Messages, AbsentFieldsAreDefaultsAndUnknownOnesIgnored) {
  const auto request = parse<LoadRequest>(R"({"cache":"c","later":1})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->cache, "c");
  EXPECT_EQ(request->waited_ms, 0);
}

TEST(Messages, GarbageIsInvalid) {
  for (const char* text :
       {"", "{", "[]", "7", R"({"cache":7})", R"({"cache":"c","waited_ms":"x"})"}) {
    const auto request = parse<LoadRequest>(text);
    ASSERT_FALSE(request) << text;
    EXPECT_EQ(request.error().code, ErrorCode::kInvalid);
  }
}

TEST(Messages, ErrorsTravel) {
  const Error error{ErrorCode::kConflict, "the lock was lost"};
  const Error back = error_of(http_status(error.code), error_body(error));
  EXPECT_EQ(back.code, ErrorCode::kConflict);
  EXPECT_EQ(back.message, "the lock was lost");
  EXPECT_EQ(error_of(503, "<html>").code, ErrorCode::kUnavailable);
}

TEST(AgentConfig, RoundTrips) {
  AgentConfig config;
  config.cache = "c";
  frameworks::Framework torch;
  torch.name = "torch";
  torch.env = {{"A", "{directory}"}};
  torch.completions = {{"*/*", "done"}};
  config.directories = {{torch, "/compilecache/cache/torch"}};
  config.key_basis.parts = {"GPUProduct"};
  const auto back = parse_agent_config(dump(config));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, config);
  EXPECT_FALSE(parse_agent_config("{"));
  EXPECT_FALSE(parse_agent_config(R"({"directories": 7})"));
}

TEST(Words, RoundTripAndRefuse) {
  for (const auto effect :
       {Effect::kFull, Effect::kPartial, Effect::kNone, Effect::kUnused, Effect::kUnknown}) {
    EXPECT_EQ(parse_effect(to_string(effect)), effect);
  }
  for (const auto mode :
       {Mode::kReadWrite, Mode::kReadOnly, Mode::kRefresh, Mode::kDisabled, Mode::kForceCold}) {
    EXPECT_EQ(parse_mode(to_string(mode)), mode);
  }
  EXPECT_FALSE(parse_mode("readwrite"));
  EXPECT_EQ(to_string(Outcome::kDoesNotExist), "DOES_NOT_EXIST");
}

TEST(Reasons, EachHasItsWordEventAndSentence) {
  std::set<std::string_view> words;
  std::set<std::string_view> events;
  for (const InjectionReasonText& text : injection_reasons()) {
    EXPECT_FALSE(text.sentence.empty());
    words.insert(text.word);
    events.insert(text.event);
    EXPECT_EQ(&text_of(text.reason), &text);
  }
  EXPECT_EQ(words.size(), injection_reasons().size());
  EXPECT_EQ(events.size(), injection_reasons().size());
  EXPECT_EQ(injection_reasons().size(), static_cast<size_t>(InjectionReason::kRequestInvalid) + 1);
}

}  // namespace
}  // namespace compilecache::api
