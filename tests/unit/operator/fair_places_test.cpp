#include "operator/archives/fair_places.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::seconds;
using Shares = std::map<std::string, size_t>;

const std::string kStore = "registry";

class FairPlacesTest : public ::testing::Test {
 protected:
  FairPlaces::Answer ask(const std::string& ns, int pod) {
    return places.take({kStore, ns}, ns + "-" + std::to_string(pod), clock.monotonic(),
                       seconds(60));
  }
  int granted(const std::string& ns, int pods) {
    int count = 0;
    for (int pod = 0; pod < pods; ++pod) count += ask(ns, pod).granted ? 1 : 0;
    return count;
  }
  void leave(const std::string& ns, int pod) {
    places.leave(kStore, ns + "-" + std::to_string(pod));
  }

  FakeClock clock;
  FairPlaces places{10, seconds(2)};
};

TEST(FairShares, AreMaxMin) {
  EXPECT_EQ(fair_shares({{"a", 50}, {"b", 3}}, 10), (Shares{{"a", 7}, {"b", 3}}));
  EXPECT_EQ(fair_shares({{"a", 50}, {"b", 50}}, 10), (Shares{{"a", 5}, {"b", 5}}));
  EXPECT_EQ(fair_shares({{"a", 2}, {"b", 3}}, 10), (Shares{{"a", 2}, {"b", 3}}));
  const Shares three = fair_shares({{"a", 9}, {"b", 9}, {"c", 9}}, 10);
  EXPECT_EQ(three.at("a") + three.at("b") + three.at("c"), 10U) << "no place stays empty";
  EXPECT_EQ(fair_shares({{"a", 9}, {"b", 9}, {"c", 9}}, 2).at("c"), 1U) << "nobody has none";
}

TEST_F(FairPlacesTest, ACrowdOfOneNamespaceHasAllPlacesUntilAnotherWantsSome) {
  EXPECT_EQ(granted("crowd", 50), 10);
  EXPECT_EQ(places.waiting({kStore, "crowd"}, clock.monotonic()), 40U);
  const auto waits = ask("ml", 0);
  EXPECT_FALSE(waits.granted);
  EXPECT_TRUE(waits.entitled);
  EXPECT_EQ(waits.due, seconds(2));
  clock.advance(seconds(1));
  leave("crowd", 0);
  EXPECT_FALSE(ask("crowd", 20).granted) << "it has more than its share";
  EXPECT_TRUE(ask("ml", 0).granted) << "the next free place is the other's";
}

TEST_F(FairPlacesTest, NobodyWaitsForAnotherNamespaceLongerThanTheBound) {
  EXPECT_EQ(granted("crowd", 50), 10);
  EXPECT_EQ(granted("ml", 8), 0);
  clock.advance(seconds(2));
  EXPECT_EQ(granted("ml", 8), 5) << "its share, although nobody has left";
  EXPECT_FALSE(ask("ml", 7).entitled) << "the others wait for their own";
  EXPECT_EQ(granted("crowd", 50), 10) << "those that had places, and no more";
}

TEST_F(FairPlacesTest, OneThatAsksNoMoreKeepsNoPlaceFree) {
  EXPECT_EQ(granted("crowd", 10), 10);
  EXPECT_FALSE(ask("ml", 0).granted);
  leave("crowd", 0);
  EXPECT_FALSE(ask("crowd", 11).granted);
  clock.advance(seconds(12));
  EXPECT_TRUE(ask("crowd", 11).granted);
}

TEST_F(FairPlacesTest, APlaceEndsWithItsTimeAndWithItsHolder) {
  EXPECT_EQ(granted("ml", 11), 10);
  places.leave_all("ml-3");
  EXPECT_TRUE(ask("ml", 10).granted);
  EXPECT_FALSE(ask("ml", 11).granted);
  clock.advance(seconds(60));
  EXPECT_TRUE(ask("ml", 11).granted);
  places.hold({kStore, "ml"}, "held-before", clock.monotonic() + seconds(9));
  EXPECT_EQ(granted("ml", 11), 8) << "one that another leader granted counts";
}

}  // namespace
}  // namespace compilecache::controller
