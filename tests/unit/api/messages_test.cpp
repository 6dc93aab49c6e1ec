#include <gmock/gmock.h>
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

frameworks::Framework some_framework() {
  return {.name = "torch",
          .env = {{"A", "{directory}"}},
          .directory_variable = "DIRECTORY",
          .entry_directories = {"fxgraph/*/*"},
          .entry_files = {"triton/*.json"},
          .never_pack = {"locks"},
          .temporary = {"tmp.*"},
          .build_directories = {"*_CxxBuild"},
          .completions = {{"*/*", "done"}},
          .elf_files = {"*.so"},
          .key_parts = {"DriverVersion"}};
}

KeyBasis some_key_basis() {
  return {.parts = {"GPUProduct"},
          .gpu_resource = "nvidia.com/gpu",
          .gpu_count = 2,
          .image = "app:1",
          .workload = "Deployment/web",
          .version = "\"v\"\n\xC3\xA4",
          .directories = "torch=/x"};
}

// No field has its default, so that one that does not travel is noticed.
TEST(AgentConfig, RoundTrips) {
  const AgentConfig config{.cache = "c",
                           .ns = "ml",
                           .cache_uid = "uid",
                           .operator_address = "10.0.0.1",
                           .operator_port = 8443,
                           .operator_name = "name",
                           .operator_ca = "-----BEGIN\n",
                           .token_file = "/token",
                           .store = VolumeRef{"ml", "claim", "team/c"},
                           .store_mount = "/store",
                           .index_fallback = false,
                           .directories = {{some_framework(), "/compilecache/cache/torch"}},
                           .control_path = "/control",
                           .mode = "ReadOnly",
                           .key_basis = some_key_basis(),
                           .load = {"Exact", milliseconds(1), milliseconds(2)},
                           .save = {.policy = "Once",
                                    .quiet_period = milliseconds(4),
                                    .at_termination = milliseconds(5),
                                    .max_archive_size = 6,
                                    .lock_timeout = milliseconds(7),
                                    .allowed_service_accounts = {"a"},
                                    .run_as_user = 11},
                           .compression = {.level = 7, .threads = 8, .window = 2U << 20},
                           .ephemeral_limit_bytes = 3,
                           .first_quiet_period = milliseconds(10),
                           .sweep = {"cluster", true}};
  const auto back = parse_agent_config(dump(config));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, config);
  EXPECT_EQ(parse_agent_config("{}"), AgentConfig());
  EXPECT_EQ(dump(AgentConfig()), "{}") << "the text is in every pod";
  EXPECT_FALSE(parse_agent_config("{"));
  EXPECT_FALSE(parse_agent_config(R"({"directories": 7})"));
}

TEST(AgentConfig, ErrorsNameTheField) {
  const auto message_for = [](const char* text) {
    const auto config = parse_agent_config(text);
    return config ? std::string("accepted") : config.error().message;
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message_for(R"({"operator_port": "x"})"),
              HasSubstr("operator_port: must be a whole"));
  EXPECT_THAT(message_for(R"({"save": {"quietPeriod": "soon"}})"), HasSubstr("save.quietPeriod: "));
  EXPECT_THAT(message_for(R"({"directories": [{"path": 7}]})"), HasSubstr("directories.path: "));
  EXPECT_THAT(message_for(R"({"store": {"volume": {"claim": 7}}})"), HasSubstr("store.claim: "));
  EXPECT_THAT(message_for(R"({"store": {"bucket": {}}})"), HasSubstr("store: is of no known kind"));
}

TEST(InjectionStatus, RoundTrips) {
  const InjectionStatus status{.version = "1",
                               .hash = "h",
                               .init_containers = {"i"},
                               .volumes = {"v"},
                               .containers = {"c"},
                               .variables = {"c:V"},
                               .mounts = {"/m"},
                               .frameworks = {"torch"},
                               .mode = "Refresh",
                               .wait_for_first_ms = 1,
                               .key_basis = some_key_basis()};
  const auto back = parse_injection_status(dump(status));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, status);
  EXPECT_FALSE(parse_injection_status(R"({"volumes": "x"})"));
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
