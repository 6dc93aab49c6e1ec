#include "operator/agents/load_traffic.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/clock.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::string kArchive = "ml/llama-1";
const FairPlaces::Tenant kTenant{"volume/ml/claim", "ml"};

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
  bool begin(const std::string& pod, milliseconds budget = seconds(5), int64_t bytes = 0) {
    return traffic.begin({.tenant = kTenant, .pod_uid = pod, .bytes = bytes, .budget = budget})
        .granted;
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

// A warm pod that adds a shape is not a first pod.
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
  EXPECT_TRUE(begin("uid-a"));
  EXPECT_TRUE(begin("uid-b"));
  EXPECT_FALSE(begin("uid-c"));
  EXPECT_FALSE(second("a"));
  EXPECT_TRUE(second("c"));
  traffic.gone("uid-a");
  EXPECT_TRUE(begin("uid-d"));
  EXPECT_FALSE(second("d"));
  EXPECT_TRUE(second("c")) << "for the next one";
  EXPECT_EQ(traffic.waiting(kTenant), 1U);
  traffic.gone("uid-c");
  EXPECT_EQ(traffic.waiting(kTenant), 0U);
  EXPECT_EQ(traffic.waiting(kArchive), 0U);
}

TEST_F(LoadTrafficTest, KnowsHowManyWaitForAPlace) {
  for (const char* pod : {"a", "b", "c", "d"}) begin(pod);
  EXPECT_EQ(traffic.waiting(kTenant), 2U);
  EXPECT_EQ(traffic.waiting(FairPlaces::Tenant{"volume/ml/other", "ml"}), 0U);
  EXPECT_EQ(traffic.waiting(FairPlaces::Tenant{kTenant.store, "other"}), 0U);
  traffic.end(kTenant, "a");
  EXPECT_TRUE(begin("c"));
  EXPECT_EQ(traffic.waiting(kTenant), 1U);
  clock.advance(seconds(12));
  EXPECT_EQ(traffic.waiting(kTenant), 0U) << "it asks no more";
}

TEST_F(LoadTrafficTest, PlacesAreLimitedAndFreedByTime) {
  EXPECT_TRUE(begin("a", seconds(5)));
  EXPECT_TRUE(begin("b", seconds(9)));
  EXPECT_FALSE(begin("c", seconds(5)));
  EXPECT_TRUE(begin("a", seconds(5))) << "it has one";
  EXPECT_TRUE(
      traffic.begin({.tenant = {"volume/ml/other", "ml"}, .pod_uid = "c", .budget = seconds(5)})
          .granted);
  clock.advance(seconds(5));
  EXPECT_TRUE(begin("c", seconds(5)));
  EXPECT_FALSE(begin("d", seconds(5)));
  traffic.end(kTenant, "b");
  EXPECT_TRUE(begin("d", seconds(5)));
}

// A pod that never says that its load has ended.
TEST_F(LoadTrafficTest, APlaceIsHeldForWhatItsArchiveTakesAndNotForTheBudget) {
  EXPECT_TRUE(begin("a", seconds(60)));
  traffic.end(kTenant, "a", 1000, seconds(1));
  EXPECT_TRUE(begin("b", seconds(60), 2000));
  EXPECT_TRUE(begin("c", seconds(60), 1));
  clock.advance(seconds(2));
  EXPECT_TRUE(begin("d", seconds(60), 1'000'000)) << "a small one does not take that long";
  clock.advance(seconds(6));
  EXPECT_TRUE(begin("e", seconds(60), 2000)) << "nor that one";
  clock.advance(seconds(4));
  EXPECT_FALSE(begin("f", seconds(60), 2000));
}

TEST_F(LoadTrafficTest, AnotherNamespaceGetsItsShareOfARegistry) {
  const FairPlaces::Tenant crowd{"registry", "crowd"}, ml{"registry", "ml"};
  const auto ask = [&](const FairPlaces::Tenant& tenant, const std::string& pod) {
    return traffic.begin({.tenant = tenant, .pod_uid = pod, .budget = seconds(60)});
  };
  for (const char* pod : {"a", "b", "c"}) ask(crowd, pod);
  const auto waits = ask(ml, "x");
  EXPECT_FALSE(waits.granted);
  EXPECT_TRUE(waits.entitled);
  EXPECT_FALSE(ask(crowd, "c").entitled);
  clock.advance(waits.due);
  EXPECT_TRUE(ask(ml, "x").granted);
  EXPECT_FALSE(ask(crowd, "c").granted);
}

}  // namespace
}  // namespace compilecache::controller
