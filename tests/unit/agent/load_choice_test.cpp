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
  explicit WaitingOperator(int64_t until_ms) : until_ms_(until_ms) {}

  Result<api::LoadAnswer> load(const api::LoadRequest& request, Patience) override {
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
};

LoadChoice choose(int64_t operator_waits_ms) {
  api::AgentConfig config;
  config.wait_for_first_ms = 5000;
  config.load_timeout_ms = 60'000;
  WaitingOperator coordinator(operator_waits_ms);
  return choose_archive(
      config, "node-1", coordinator, [](milliseconds) { return true; }, [] {});
}

TEST(LoadChoice, WaitsAsLongAsOtherPodsLoadsMayTake) {
  // Not for the first pod (5 s) nor for a label (15 s), but for its turn to load.
  EXPECT_TRUE(choose(70'000).load);
}

TEST(LoadChoice, DoesNotWaitForEver) {
  const LoadChoice choice = choose(3'600'000);
  EXPECT_FALSE(choice.load);
  EXPECT_EQ(choice.status.reason, "waited_enough");
}

}  // namespace
}  // namespace compilecache::agent
