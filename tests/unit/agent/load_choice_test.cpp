#include "agent/load_choice.hpp"

#include <gtest/gtest.h>

#include "agent/coordinator.hpp"

// How long a loader lets the operator make it wait. No time passes here.

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
      return fail(ErrorCode::kTimeout, "no answer");
    }
    api::LoadAnswer answer;
    answer.decision = request.waited_ms < until_ms_ ? "wait" : "load";
    answer.match = "exact";
    answer.retry_after_ms = 1000;
    return answer;
  }
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

 private:
  static tl::unexpected<Error> unused() { return fail(ErrorCode::kInternal, "not asked here"); }
  int64_t until_ms_;
  int silent_;  // calls that are not answered
};

LoadChoice choose(int64_t operator_waits_ms, int silent = 0, int64_t wait_for_first = 5000) {
  api::AgentConfig config;
  config.wait_for_first_ms = wait_for_first;
  config.load_timeout_ms = 60'000;
  config.index_fallback = false;
  WaitingOperator coordinator(operator_waits_ms, silent);
  return choose_archive(
      config, "node-1", coordinator, [](milliseconds) { return true; }, [] {});
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

TEST(LoadChoice, WhoIsToldNotToAskGoesByTheIndexAtOnce) {
  api::AgentConfig config;
  config.operator_address = "10.0.0.1";
  config.ask_operator = false;
  config.wait_for_first_ms = 5000;
  WaitingOperator coordinator(0);
  const LoadChoice choice = choose_archive(
      config, "node-1", coordinator, [](milliseconds) { return true; }, [] {});
  EXPECT_EQ(coordinator.asked, 0);
  EXPECT_FALSE(choice.operator_answered) << "so the saver reports the load, if it can";
  EXPECT_EQ(choice.status.source, "index");
}

TEST(LoadChoice, DoesNotWaitForEver) {
  const LoadChoice choice = choose(3'600'000);
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.reason, "waited_enough");
}

}  // namespace
}  // namespace compilecache::agent
