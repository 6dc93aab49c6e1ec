#include "operator/breaker/replacement.hpp"

#include <gtest/gtest.h>

namespace compilecache::controller {
namespace {

using std::chrono::seconds;

// Two stuck pods, of which the first may not be replaced, and one that may.
class ReplacementTest : public ::testing::Test {
 protected:
  ReplacementTest() {
    for (const char* name : {"a", "b", "c"}) {
      StuckPod pod{.name = name, .uid = std::string("uid-") + name};
      pod.replaceable = pod.name != "a";
      seen.pods.push_back(pod);
    }
  }
  // The name of the pod that is next, or how long to wait, or "".
  std::string next() {
    const Replacement found =
        choose_replacement(seen, {open, written_open, replaced, replaced_last, now}, rules);
    again = found.again;
    return found.pod == nullptr ? "" : found.pod->name;
  }

  Settings::Breaker rules;
  StuckPods seen;
  Monotonic now{seconds(1000)};
  bool open = true;
  std::optional<Monotonic> written_open = now - seconds(10), replaced_last;
  std::set<std::string> replaced;
  Duration again{0};
};

TEST_F(ReplacementTest, EachThatMayBeReplacedIsNextOnce) {
  EXPECT_EQ(next(), "b");
  EXPECT_EQ(again, rules.replace_interval);
  replaced.insert("uid-b");
  EXPECT_EQ(next(), "c");
  replaced.insert("uid-c");
  EXPECT_EQ(next(), "");
  EXPECT_EQ(again, seconds(0)) << "only something new changes that";
}

TEST_F(ReplacementTest, NobodyIsNextUntilTheWebhooksCanHaveHeard) {
  written_open = now - seconds(2);
  EXPECT_EQ(next(), "");
  EXPECT_EQ(again, seconds(1));
  written_open.reset();
  EXPECT_EQ(next(), "") << "the status does not say so yet";
  written_open = now - seconds(3);
  EXPECT_EQ(next(), "b");
  open = false;
  EXPECT_EQ(next(), "");
}

TEST_F(ReplacementTest, TheRateHoldsForAllTogether) {
  replaced_last = now - rules.replace_interval + seconds(1);
  EXPECT_EQ(next(), "");
  EXPECT_EQ(again, seconds(1));
  replaced_last = now + seconds(60);
  EXPECT_EQ(next(), "") << "one was refused";
  EXPECT_EQ(again, seconds(60) + rules.replace_interval);
  replaced_last = now - rules.replace_interval;
  EXPECT_EQ(next(), "b");
}

}  // namespace
}  // namespace compilecache::controller
