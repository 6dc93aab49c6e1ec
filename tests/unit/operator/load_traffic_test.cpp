#include "operator/agents/load_traffic.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/clock.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kArchive = "ml/llama-1";

class LoadTrafficTest : public ::testing::Test {
 protected:
  // Whether the pod has to wait for another one.
  bool second(const std::string& pod, seconds tenure = seconds(60)) {
    return traffic.goes_second(kArchive, pod, "uid-" + pod, tenure, alive());
  }
  bool held(const std::string& pod) { return traffic.holds(kArchive, "uid-" + pod, alive()); }
  void saved(const std::string& pod, milliseconds settle) {
    traffic.saved(kArchive, pod, "uid-" + pod, settle);
  }
  LoadTraffic::Alive alive() const {
    return [this](const std::string& pod, const std::string&) { return !dead.contains(pod); };
  }

  FakeClock clock;
  LoadTraffic traffic{2, clock};
  std::set<std::string> dead;
};

TEST_F(LoadTrafficTest, OneGoesFirstUntilItDies) {
  EXPECT_FALSE(second("a"));
  EXPECT_TRUE(second("b"));
  EXPECT_FALSE(second("a")) << "it asks again";
  dead.insert("a");
  EXPECT_FALSE(second("b"));
  EXPECT_TRUE(second("c"));
}

TEST_F(LoadTrafficTest, OneThatDoesNotSaveIsOvertakenByOne) {
  EXPECT_FALSE(second("a"));
  clock.advance(seconds(59));
  EXPECT_TRUE(second("b"));
  clock.advance(seconds(1));
  EXPECT_FALSE(second("b"));
  EXPECT_TRUE(second("c"));
}

TEST_F(LoadTrafficTest, OneThatCannotSaveIsNoFirst) {
  EXPECT_FALSE(second("reader", seconds(0)));
  EXPECT_FALSE(second("a"));
  EXPECT_TRUE(second("reader", seconds(0))) << "but it may wait";
}

TEST_F(LoadTrafficTest, OneThatNeverWaitsIsTheFirstWhereNobodyIs) {
  traffic.goes_ahead(kArchive, "bare", "uid-bare", seconds(60), alive());
  EXPECT_TRUE(second("a"));
  traffic.goes_ahead(kArchive, "bare-2", "uid-bare-2", seconds(600), alive());
  EXPECT_EQ(traffic.first(kArchive), "bare");
  EXPECT_EQ(traffic.waiting(kArchive), 1U) << "who goes ahead does not wait";
  clock.advance(seconds(60));
  EXPECT_FALSE(second("a"));
  dead.insert("a");
  traffic.goes_ahead(kArchive, "reader", "uid-reader", seconds(0), alive());
  EXPECT_EQ(traffic.first(kArchive), "") << "it may not save";
}

TEST_F(LoadTrafficTest, OneThatGivesUpLetsTheNextGo) {
  EXPECT_FALSE(second("a"));
  traffic.gives_up(kArchive, "uid-b");
  EXPECT_TRUE(second("b"));
  traffic.gives_up(kArchive, "uid-a");
  EXPECT_FALSE(second("b"));
}

TEST_F(LoadTrafficTest, OthersAreHeldUntilTheFirstHasSettled) {
  EXPECT_FALSE(held("b")) << "nobody is compiling";
  EXPECT_FALSE(second("a"));
  saved("a", seconds(10));
  EXPECT_TRUE(held("b"));
  EXPECT_FALSE(held("a"));
  clock.advance(seconds(10));
  EXPECT_FALSE(held("b"));
}

TEST_F(LoadTrafficTest, AFirstThatCompilesOnHoldsThemUntilItsNextSave) {
  EXPECT_FALSE(second("a"));
  saved("a", seconds(10));
  traffic.compiling(kArchive, "uid-a");
  clock.advance(seconds(100));
  EXPECT_TRUE(held("b"));
  saved("a", seconds(5));
  EXPECT_TRUE(held("b"));
  clock.advance(seconds(5));
  EXPECT_FALSE(held("b"));
}

TEST_F(LoadTrafficTest, AFirstThatDiesAfterASaveHoldsNobody) {
  EXPECT_FALSE(second("a"));
  saved("a", seconds(10));
  traffic.compiling(kArchive, "uid-a");
  dead.insert("a");
  EXPECT_FALSE(held("b"));
}

TEST_F(LoadTrafficTest, ACompleteSaveHoldsNobody) {
  EXPECT_FALSE(second("a"));
  saved("a", seconds(0));
  EXPECT_FALSE(held("b"));
}

// A warm pod that adds a shape is nobody's first.
TEST_F(LoadTrafficTest, LaterSavesHoldNobody) {
  saved("warm", seconds(10));
  EXPECT_FALSE(held("b"));
  EXPECT_FALSE(second("a"));
  saved("a", seconds(10));
  clock.advance(seconds(11));
  saved("warm", seconds(10));
  EXPECT_FALSE(held("b"));
}

TEST_F(LoadTrafficTest, OneThatHasEndedHoldsNoPlaceAndNobody) {
  EXPECT_TRUE(traffic.begin("ml/claim", "uid-a", seconds(5)));
  EXPECT_TRUE(traffic.begin("ml/claim", "uid-b", seconds(5)));
  EXPECT_FALSE(traffic.begin("ml/claim", "uid-c", seconds(5)));
  EXPECT_FALSE(second("a"));
  EXPECT_TRUE(second("c"));
  traffic.gone("uid-a");
  EXPECT_TRUE(traffic.begin("ml/claim", "uid-d", seconds(5)));
  EXPECT_FALSE(second("d"));
  EXPECT_TRUE(second("c")) << "for the next one";
  EXPECT_EQ(traffic.waiting("ml/claim"), 1U);
  traffic.gone("uid-c");
  EXPECT_EQ(traffic.waiting("ml/claim"), 0U);
  EXPECT_EQ(traffic.waiting(kArchive), 0U);
}

TEST_F(LoadTrafficTest, KnowsHowManyWaitForAPlace) {
  for (const char* pod : {"a", "b", "c", "d"}) traffic.begin("ml/claim", pod, seconds(5));
  EXPECT_EQ(traffic.waiting("ml/claim"), 2U);
  EXPECT_EQ(traffic.waiting("ml/other"), 0U);
  traffic.end("ml/claim", "a");
  EXPECT_TRUE(traffic.begin("ml/claim", "c", seconds(5)));
  EXPECT_EQ(traffic.waiting("ml/claim"), 1U);
  clock.advance(seconds(12));
  EXPECT_EQ(traffic.waiting("ml/claim"), 0U) << "it asks no more";
}

TEST_F(LoadTrafficTest, PlacesAreLimitedAndFreedByTime) {
  EXPECT_TRUE(traffic.begin("ml/claim", "a", seconds(5)));
  EXPECT_TRUE(traffic.begin("ml/claim", "b", seconds(9)));
  EXPECT_FALSE(traffic.begin("ml/claim", "c", seconds(5)));
  EXPECT_TRUE(traffic.begin("ml/claim", "a", seconds(5))) << "it has one";
  EXPECT_TRUE(traffic.begin("ml/other", "c", seconds(5)));
  clock.advance(seconds(5));
  EXPECT_TRUE(traffic.begin("ml/claim", "c", seconds(5)));
  EXPECT_FALSE(traffic.begin("ml/claim", "d", seconds(5)));
  traffic.end("ml/claim", "b");
  EXPECT_TRUE(traffic.begin("ml/claim", "d", seconds(5)));
}

}  // namespace
}  // namespace compilecache::controller
