#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "api/agent_api.hpp"
#include "api/agent_config.hpp"
#include "api/reasons.hpp"

namespace compilecache::api {
namespace {

TEST(Messages, RoundTrip) {
  SaveAnswer answer;
  answer.decision = SaveDecision::kGranted;
  answer.fence = 7;
  answer.key = {{"GPUProduct", "G"}};
  answer.condemned = {"sha256:aa"};
  const auto back = parse<SaveAnswer>(dump(answer));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->decision, SaveDecision::kGranted);
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

// Agents and operators of other releases write and read exactly these texts.
TEST(Messages, EnumerationsTravelAsTheirWords) {
  EXPECT_EQ(dump(LoadAnswer{.decision = LoadDecision::kLoad, .match = Match::kCompatible}),
            R"({"archive":"","budget_ms":0,"compressed_bytes":0,"decision":"load","generation":0,)"
            R"("gpu_product":"","key":{},"manifest_digest":"","match":"compatible",)"
            R"("plain_bytes":0,"rank_directories":[],"reason":"","retry_after_ms":0})");
  EXPECT_EQ(
      dump(LoadedReport{.outcome = Outcome::kDoesNotExist, .source = LoadSource::kIndex}),
      R"({"archive":"","asked_ms":0,"bytes":0,"cache":"","corrupt_digest":"","cpu":"","files":0,)"
      R"("generation":0,"manifest_digest":"","match":"","message":"","milliseconds":0,)"
      R"("outcome":"DOES_NOT_EXIST","reason":"","source":"index","waited_for":"",)"
      R"("waited_ms":0})");
  EXPECT_EQ(dump(SaveAnswer{.decision = SaveDecision::kBusy}),
            R"({"archive":"","condemned":[],"decision":"busy","fence":0,"generation":0,)"
            R"("gpu_product":"","id":"","key":{},"lock_timeout_ms":0,"parent_digest":"",)"
            R"("reason":"","retry_after_ms":0})");
  EXPECT_EQ(
      dump(EffectReport{.effect = Effect::kPartial, .save_outcome = Outcome::kSkipped}),
      R"({"cache":"","compile_seconds":0.0,"compiling":false,"counted_effect":"",)"
      R"("differing":[],"effect":"partial","final_report":false,"loaded_entries":0,)"
      R"("new_entries":0,"new_names":[],"rank_directories":[],"read_entries":0,)"
      R"("reason":"","save_message":"","save_outcome":"SKIPPED","save_reason":"","unreadable_files":0,)"
      R"("unreadable_owner":-1})");
  EXPECT_EQ(dump(SweepRequest{.cache = "c", .phase = SweepPhase::kInventory}),
            R"({"after":"","cache":"c","copied_archives":0,"copied_from":"","copy_error":"",)"
            R"("copy_left_out":0,"corrupt":[],"found":[],"freed_bytes":0,"inventory":[],)"
            R"("kept":[],"listed":false,"phase":"inventory","removed_blobs":0,)"
            R"("removed_incomplete":0,"storage_error":"","storage_trouble":"","sweep_error":"",)"
            R"("unread":[],"up_to":"","verified":[]})");
}

// A peer of a later release may have words that this one does not know; what it says is taken all
// the same.
TEST(Messages, AWordOfAnotherReleaseIsTheSafeSide) {
  const auto load = parse<LoadAnswer>(R"({"decision":"prefetch","match":"sibling","archive":"a"})");
  ASSERT_TRUE(load);
  EXPECT_EQ(load->decision, LoadDecision::kNone) << "a cold start";
  EXPECT_EQ(load->match, std::nullopt);
  EXPECT_EQ(load->archive, "a");
  const auto save = parse<SaveAnswer>(R"({"decision":"queued","reason":"too_busy"})");
  ASSERT_TRUE(save);
  EXPECT_EQ(save->decision, SaveDecision::kRefused);
  EXPECT_EQ(save->reason, "too_busy");
  const auto loaded = parse<LoadedReport>(
      R"({"outcome":"PARTLY","match":"sibling","source":"peer","milliseconds":7})");
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->outcome, std::nullopt);
  EXPECT_EQ(loaded->match, std::nullopt);
  EXPECT_EQ(loaded->source, std::nullopt);
  EXPECT_EQ(loaded->milliseconds, 7);
  const auto effect = parse<EffectReport>(R"({"effect":"most","save_outcome":"","new_entries":3})");
  ASSERT_TRUE(effect);
  EXPECT_EQ(effect->effect, std::nullopt);
  EXPECT_EQ(effect->save_outcome, std::nullopt);
  EXPECT_EQ(effect->new_entries, 3);
  const auto sweep = parse<SweepRequest>(R"({"phase":"scrub"})");
  ASSERT_TRUE(sweep);
  EXPECT_EQ(sweep->phase, std::nullopt);
}

TEST(Messages, AnInventoryThatWasNotReadIsNotAnEmptyOne) {
  SweepRequest request{.phase = SweepPhase::kEnd, .inventory = Inventory()};
  ASSERT_TRUE(parse<SweepRequest>(dump(request))->inventory);
  request.inventory = Inventory{{{"sha256:b", 7}}, {"sha256:c"}, {"sha256:d"}, "sha256:a", "x"};
  const auto back = parse<SweepRequest>(dump(request))->inventory;
  ASSERT_TRUE(back);
  EXPECT_EQ(back->blobs.at(0).digest, "sha256:b");
  EXPECT_EQ(back->blobs.at(0).size, 7);
  EXPECT_EQ(back->kept, request.inventory->kept);
  EXPECT_EQ(back->unread, request.inventory->unread);
  EXPECT_EQ(back->after, "sha256:a");
  EXPECT_EQ(back->up_to, "x");
  request.inventory.reset();
  EXPECT_FALSE(parse<SweepRequest>(dump(request))->inventory);
  // 0.2 says nothing of it.
  const auto old = [](const std::string& fields) {
    return parse<SweepRequest>(R"({"phase":"end",)" + fields + "}")->inventory.has_value();
  };
  EXPECT_FALSE(old(R"("inventory":[],"after":"","up_to":"")")) << "perhaps it failed";
  EXPECT_TRUE(old(R"("inventory":[{"digest":"sha256:a","size":1}],"after":"","up_to":"")"));
  EXPECT_TRUE(old(R"("inventory":[],"after":"sha256:a","up_to":"")"));
}

TEST(Messages, AWordMustBeText) {
  EXPECT_FALSE(parse<LoadAnswer>(R"({"decision":1})"));
  EXPECT_FALSE(parse<LoadedReport>(R"({"outcome":null})"));
  EXPECT_FALSE(parse<SweepRequest>(R"({"phase":["end"]})"));
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
          .not_compiled = {"notes"},
          .named_by_content = {"digests/**"},
          .rank_directories = {"*/rank_*"},
          .never_pack = {"locks"},
          .temporary = {"tmp.*"},
          .build_directories = {"*_CxxBuild"},
          .completions = {{"*/*", "done"}},
          .elf_files = {"*.so"},
          .stream_files = {"*-cache"},
          .unit_directories = {"aot/*"},
          .portable_files = {"launcher*.so"},
          .index_files = {"*.nbi"},
          .only_from_warm = {"plan/**"},
          .must_agree = {"tuned/**"},
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
TEST(AgentConfig, ARegistryRoundTrips) {
  AgentConfig config;
  config.store = RegistryRef{.host = "harbor.example.com",
                             .repository = "caches/ml/c",
                             .parent = "caches",
                             .secret = "robot",
                             .ca_config_map = "authorities"};
  EXPECT_EQ(dump(config),
            R"({"store":{"registry":{"ca_config_map":"authorities","host":"harbor.example.com",)"
            R"("parent":"caches","repository":"caches/ml/c","secret":"robot"}}})");
  EXPECT_EQ(parse_agent_config(dump(config)), config);
  config.store = RegistryRef{
      .host = "r.cc.svc:5000", .repository = "ml/c", .own = true, .address = "10.0.0.7:5000"};
  EXPECT_EQ(dump(config),
            R"({"store":{"registry":{"address":"10.0.0.7:5000","host":"r.cc.svc:5000",)"
            R"("own":true,"repository":"ml/c"}}})");
  EXPECT_EQ(parse_agent_config(dump(config)), config);
}

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
                           .mode = Mode::kReadOnly,
                           .key_basis = some_key_basis(),
                           .load = {LoadFallback::kExact, milliseconds(1), milliseconds(2)},
                           .save = {.policy = SavePolicy::kOnce,
                                    .quiet_period = milliseconds(4),
                                    .at_termination = milliseconds(5),
                                    .max_archive_size = 6,
                                    .lock_timeout = milliseconds(7),
                                    .allowed_service_accounts = {"a"},
                                    .run_as_user = 11},
                           .compression = {.level = 7, .threads = 8, .window = 2U << 20},
                           .ephemeral_limit_bytes = 3,
                           .in_group = true,
                           .first_quiet_period = milliseconds(10),
                           .sweep = {"cluster", true}};
  const auto back = parse_agent_config(dump(config));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, config);
  EXPECT_EQ(parse_agent_config("{}"), AgentConfig());
  EXPECT_EQ(dump(AgentConfig()), "{}") << "the text is in every pod";
  const auto later = parse_agent_config(R"({"mode":"Verify","cache":"c"})");
  ASSERT_TRUE(later) << "words of another release";
  EXPECT_EQ(later->mode, Mode::kReadWrite);
  EXPECT_FALSE(parse_agent_config(R"({"save": {"policy": "Daily"}})")) << "of the same release";
  EXPECT_FALSE(parse_agent_config(R"({"mode": 7})"));
  EXPECT_NE(dump(config).find(R"("mode":"ReadOnly")"), std::string::npos);
  EXPECT_NE(dump(config).find(R"("policy":"Once")"), std::string::npos);
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
                               .kit_left_off = {{"V=1"}},
                               .mode = Mode::kRefresh,
                               .wait_for_first_ms = 1,
                               .key_basis = some_key_basis()};
  const auto back = parse_injection_status(dump(status));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, status);
  EXPECT_FALSE(parse_injection_status(R"({"volumes": "x"})"));
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
