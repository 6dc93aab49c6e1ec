#include "agent/save/lease.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/agent/agent_fixture.hpp"

namespace compilecache::agent::testing {
namespace {

using std::chrono::milliseconds;

// Only counts renewals.
class Renewals : public Coordinator {
 public:
  Status renew_save(const std::string&, const api::RenewRequest&, Patience) override {
    ++count;
    return {};
  }
  Result<api::LoadAnswer> load(const api::LoadRequest&, Patience) override { return {}; }
  Status loaded(const api::LoadedReport&, Patience) override { return {}; }
  Result<api::SaveAnswer> begin_save(const api::SaveRequest&, Patience) override { return {}; }
  Result<api::CommitAnswer> commit_save(const std::string&, const api::CommitRequest&,
                                        Patience) override {
    return {};
  }
  Status release_save(const std::string&, Patience) override { return {}; }
  Status effect(const api::EffectReport&, Patience) override { return {}; }
  Result<api::SweepAnswer> sweep(const api::SweepRequest&, Patience) override { return {}; }
  Result<api::RegistryToken> registry_token(const api::RegistryTokenRequest&, Patience) override {
    return {};
  }

  std::atomic<int> count = 0;
};

api::SaveAnswer granted() {
  api::SaveAnswer answer;
  answer.id = "save-1";
  answer.lock_timeout_ms = 150;  // renewed every 50 ms
  return answer;
}

TEST(LeaseTest, ASaveThatHangsLosesItsLock) {
  Renewals renewals;
  const api::SaveAnswer answer = granted();
  Lease lease(renewals, answer, milliseconds(300));
  EXPECT_TRUE(eventually([&] { return lease.lost(); }));
  EXPECT_GT(renewals.count, 0) << "not at once";
}

// For longer than it may hang.
TEST(LeaseTest, ASaveThatGetsOnKeepsItHoweverLongItTakes) {
  Renewals renewals;
  const api::SaveAnswer answer = granted();
  Lease lease(renewals, answer, milliseconds(2'000));
  EXPECT_TRUE(eventually([&] {
    lease.got_on();
    return renewals.count > 60;  // 3 s
  }));
  EXPECT_FALSE(lease.lost());
}

}  // namespace
}  // namespace compilecache::agent::testing
