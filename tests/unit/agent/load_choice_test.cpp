#include "agent/load/load_choice.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "agent/coordinator.hpp"
#include "agent/index_lookup.hpp"
#include "agent/load/load_pace.hpp"
#include "archive/format.hpp"
#include "store/index.hpp"
#include "store/memory/memory_store.hpp"

// How long a loader lets the operator make it wait, and how long it may take then. No time passes
// here.

namespace compilecache::agent {
namespace {

using std::chrono::milliseconds;

// Says "wait" until the pod has waited for `until_ms`, then names an archive.
class WaitingOperator : public Coordinator {
 public:
  explicit WaitingOperator(int64_t until_ms, int silent = 0)
      : until_ms_(until_ms), silent_(silent) {}

  int asked = 0;

  Result<api::LoadAnswer> load(const api::LoadRequest& request, Patience) override {
    ++asked;
    if (silent_ > 0) {
      --silent_;
      std::this_thread::sleep_for(silence);
      return fail(ErrorCode::kTimeout, "no answer");
    }
    api::LoadAnswer answer;
    answer.decision =
        request.waited_ms < until_ms_ ? api::LoadDecision::kWait : api::LoadDecision::kLoad;
    answer.match = api::Match::kExact;
    answer.retry_after_ms = 1000;
    answer.budget_ms = budget_ms;
    return answer;
  }
  int64_t budget_ms = 0;
  milliseconds silence{0};  // before it is known that there is no answer

  Status loaded(const api::LoadedReport&, Patience) override { return {}; }
  Result<api::SaveAnswer> begin_save(const api::SaveRequest&, Patience) override {
    return unused();
  }
  Status renew_save(const std::string&, const api::RenewRequest&, Patience) override {
    return unused();
  }
  Result<api::CommitAnswer> commit_save(const std::string&, const api::CommitRequest&,
                                        Patience) override {
    return unused();
  }
  Status release_save(const std::string&, Patience) override { return unused(); }
  Status effect(const api::EffectReport&, Patience) override { return unused(); }
  Result<api::SweepAnswer> sweep(const api::SweepRequest&, Patience) override { return unused(); }
  Result<api::RegistryToken> registry_token(const api::RegistryTokenRequest&, Patience) override {
    return unused();
  }

 private:
  static tl::unexpected<Error> unused() { return fail(ErrorCode::kInternal, "not asked here"); }
  int64_t until_ms_;
  int silent_;  // calls that are not answered
};

const SystemClock kClock;

LoadChoice choose(int64_t operator_waits_ms, int silent = 0, int64_t wait_for_first = 5000) {
  api::AgentConfig config;
  config.load.wait_for_first = std::chrono::milliseconds(wait_for_first);
  config.load.timeout = std::chrono::milliseconds(60'000);
  config.index_fallback = false;
  WaitingOperator coordinator(operator_waits_ms, silent);
  store::MemoryStore store(kClock);
  return choose_archive(
      config, store, "node-1", coordinator, kClock, [](milliseconds) { return true; }, [] {});
}

TEST(LoadChoice, WaitsAsLongAsOtherPodsLoadsMayTake) {
  // Not for the first pod (5 s) nor for a label (15 s), but for its turn to load.
  EXPECT_TRUE(choose(70'000).load);
}

TEST(LoadChoice, APodThatMayWaitLivesThroughAChangeOfLeader) {
  const LoadChoice choice = choose(100'000, 20, 600'000);
  EXPECT_TRUE(choice.load);
  EXPECT_EQ(choose(0, 20, 600'000).status.waited_for, "operator_unreachable");
  EXPECT_EQ(choose(0, 1000, 600'000).status.reason, "operator_unreachable") << "30 s at most";
  EXPECT_LE(choose(0, 1000, 2'000).status.waited_ms, 2'500) << "nor longer than its bound";
}

TEST(LoadChoice, OthersStartAtOnceWithoutAnAnswer) {
  const LoadChoice choice = choose(0, 1, 0);
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.reason, "operator_unreachable");
  EXPECT_EQ(choice.status.waited_ms, 0);
}

class UnreadableIndex : public store::MemoryStore {
 public:
  using MemoryStore::MemoryStore;
  Result<store::Index> read_index() const override {
    return fail(ErrorCode::kIo, "reading the index: Input/output error");
  }
};

TEST(LoadChoice, AnIndexThatCannotBeReadIsAnErrorAndNotAnEmptyOne) {
  api::AgentConfig config;
  WaitingOperator coordinator(0, 1);
  UnreadableIndex store(kClock);
  ASSERT_TRUE(store.prepare({}, false));
  const LoadChoice choice = choose_archive(
      config, store, "node-1", coordinator, kClock, [](milliseconds) { return true; }, [] {});
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.outcome, api::Outcome::kError);
  EXPECT_EQ(choice.status.reason, "io");
}

milliseconds budget_said(int64_t budget_ms, int64_t timeout_ms) {
  api::AgentConfig config;
  config.load.timeout = std::chrono::milliseconds(timeout_ms);
  WaitingOperator coordinator(0);
  coordinator.budget_ms = budget_ms;
  store::MemoryStore store(kClock);
  return choose_archive(
             config, store, "node-1", coordinator, kClock, [](milliseconds) { return true; }, [] {})
      .budget;
}

TEST(LoadChoice, TheOperatorsBudgetCountsWhereItIsShorter) {
  EXPECT_EQ(budget_said(7'000, 60'000), milliseconds(7'000));
  EXPECT_EQ(budget_said(90'000, 60'000), milliseconds(60'000));
  EXPECT_EQ(budget_said(0, 60'000), milliseconds(60'000)) << "it knows none";
}

// How a loader handles an index that says this of the time that its archive took.
milliseconds budget_of_index(const std::string& compile_seconds, int64_t timeout_ms = 60'000,
                             milliseconds silence = milliseconds(0)) {
  api::AgentConfig config;
  config.load.timeout = std::chrono::milliseconds(timeout_ms);
  config.key_basis.parts = {"Architecture"};
  store::MemoryStore store(kClock);
  EXPECT_TRUE(store.prepare({}, false));
  auto annotations = index_annotations(
      "demo", 1, "", {{"Architecture", architecture()}, {api::kCpuPart, api::kAnyCpu}});
  if (!compile_seconds.empty()) annotations[archive::kAnnotationCompileSeconds] = compile_seconds;
  EXPECT_TRUE(store.update_index({"sha256:" + std::string(64, 'a'), 100, annotations}));
  WaitingOperator coordinator(0, 1);
  coordinator.silence = silence;
  const LoadChoice choice = choose_archive(
      config, store, "node-1", coordinator, kClock, [](milliseconds) { return true; }, [] {});
  EXPECT_TRUE(choice.load) << choice.status.message;
  EXPECT_EQ(choice.status.source, api::LoadSource::kIndex);
  return choice.budget;
}

TEST(LoadChoice, WithoutTheOperatorALoadMayTakeHalfOfWhatTheIndexSaysItSaves) {
  EXPECT_EQ(budget_of_index("41.5"), milliseconds(20'750));
  EXPECT_EQ(budget_of_index("9", 60'000), milliseconds(5'000));
  EXPECT_EQ(budget_of_index("4", 3'000), milliseconds(3'000)) << "never over spec.load.timeout";
  EXPECT_EQ(budget_of_index("4", 500), milliseconds(500));
  EXPECT_EQ(budget_of_index("4000"), milliseconds(60'000));
}

// Waiting for an operator that is away and loading together take no longer than compiling.
TEST(LoadChoice, WithoutTheOperatorNoPodIsSlowerThanCold) {
  const auto budget = budget_of_index("4", 60'000, milliseconds(100));
  EXPECT_LE(budget, milliseconds(3'900));
  EXPECT_GE(budget, milliseconds(1'000));
  EXPECT_EQ(budget_of_index("1", 60'000, milliseconds(100)), milliseconds(1'000))
      << "a small archive takes no longer";
}

TEST(LoadChoice, AnIndexThatSaysNoUsableTimeLeavesSomeSeconds) {
  for (const char* text : {"", "0", "-5", "nan", "inf", "1e300", "7 s", "0x10", "\xff"}) {
    EXPECT_EQ(budget_of_index(text), milliseconds(10'000)) << text;
    EXPECT_EQ(budget_of_index(text, 4'000), milliseconds(4'000)) << text;
  }
}

TEST(LoadPace, WhatWouldNotBeDoneInTimeIsSeenAtAQuarterOfIt) {
  using seconds = std::chrono::seconds;
  const auto done = [](uint64_t percent) { return archive::Progress{percent, 0, 100, 0}; };
  EXPECT_FALSE(comes_too_late(seconds(9), seconds(40), done(0))) << "too early to tell";
  EXPECT_TRUE(comes_too_late(seconds(10), seconds(40), done(24)));
  EXPECT_FALSE(comes_too_late(seconds(10), seconds(40), done(25))) << "just in time";
  EXPECT_TRUE(comes_too_late(seconds(30), seconds(40), done(74)));
  EXPECT_FALSE(comes_too_late(seconds(39), seconds(40), done(100)));
  EXPECT_FALSE(comes_too_late(seconds(39), seconds(40), archive::Progress{})) << "not known yet";
}

TEST(LoadChoice, WhoIsToldNotToAskGoesByTheIndexAtOnce) {
  api::AgentConfig config;
  config.operator_address = "10.0.0.1";
  config.ask_operator = false;
  config.load.wait_for_first = std::chrono::milliseconds(5000);
  WaitingOperator coordinator(0);
  store::MemoryStore store(kClock);
  const LoadChoice choice = choose_archive(
      config, store, "node-1", coordinator, kClock, [](milliseconds) { return true; }, [] {});
  EXPECT_EQ(coordinator.asked, 0);
  EXPECT_FALSE(choice.operator_answered) << "so the saver reports the load, if it can";
  EXPECT_EQ(choice.status.source, api::LoadSource::kIndex);
}

// Nothing else to look into: such a pod starts cold at once.
TEST(LoadChoice, WithoutTheOperatorAStoreThatKeepsNoIndexHasNothingForUs) {
  class WithoutIndex : public store::MemoryStore {
   public:
    using MemoryStore::MemoryStore;
    store::OfflineIndex* offline_index() override { return nullptr; }
  };
  WithoutIndex store(kClock);
  WaitingOperator coordinator(0, 1);
  const LoadChoice choice = choose_archive(
      api::AgentConfig{}, store, "node-1", coordinator, kClock, [](milliseconds) { return true; },
      [] {});
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.reason, "operator_unreachable");
}

TEST(LoadChoice, DoesNotWaitForEver) {
  const LoadChoice choice = choose(3'600'000);
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.reason, "waited_enough");
}

}  // namespace
}  // namespace compilecache::agent
