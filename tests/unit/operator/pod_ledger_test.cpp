#include "operator/pods/pod_ledger.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace compilecache::controller {
namespace {

struct Crashes {
  int count = 0;
};
struct Place {
  std::string claim;
};

int add_crash(PodLedger& pods, const std::string& uid) {
  return pods.edit<Crashes>(uid, [](Crashes& pod) { return ++pod.count; });
}

TEST(PodLedger, EachConcernHasASectionOfItsOwn) {
  PodLedger pods;
  EXPECT_EQ(add_crash(pods, "a"), 1);
  EXPECT_EQ(add_crash(pods, "a"), 2);
  EXPECT_EQ(add_crash(pods, "b"), 1);
  EXPECT_FALSE(pods.find<Place>("a"));
  EXPECT_FALSE(pods.edit_known<Place>("a", [](Place&) { FAIL() << "there is none"; }));
  pods.edit<Place>("a", [](Place& pod) { pod.claim = "ml/claim"; });
  EXPECT_TRUE(pods.edit_known<Crashes>("a", [](Crashes& pod) { pod.count = 7; }));
  ASSERT_TRUE(pods.find<Crashes>("a"));
  EXPECT_EQ(pods.find<Crashes>("a")->count, 7);
  EXPECT_EQ(pods.find<Place>("a")->claim, "ml/claim");
  EXPECT_EQ(pods.size(), 2U);
}

TEST(PodLedger, APodThatEndsIsForgottenByAllAndTheyHear) {
  PodLedger pods;
  std::vector<std::string> ended;
  pods.on_end([&](const std::string& ns, const std::string& uid) {
    EXPECT_FALSE(pods.find<Crashes>(uid)) << "it has ended already, and the ledger may be asked";
    ended.push_back(ns + "/" + uid);
  });
  add_crash(pods, "a");
  pods.edit<Place>("a", [](Place& pod) { pod.claim = "ml/claim"; });
  pods.end("ml", "a");
  EXPECT_FALSE(pods.find<Place>("a"));
  EXPECT_EQ(pods.size(), 0U);
  pods.end("ml", "unknown");
  EXPECT_EQ(ended, (std::vector<std::string>{"ml/a", "ml/unknown"}))
      << "others may know more of it than we do";
}

TEST(PodLedger, OfTooManyTheOneThatWasWrittenAboutLongestAgoIsForgotten) {
  PodLedger pods(3);
  for (const char* uid : {"a", "b", "c"}) add_crash(pods, uid);
  add_crash(pods, "a");
  pods.edit_known<Crashes>("b", [](Crashes&) {});
  add_crash(pods, "d");
  EXPECT_EQ(pods.size(), 3U);
  EXPECT_FALSE(pods.find<Crashes>("c"));
  for (const char* uid : {"a", "b", "d"}) EXPECT_TRUE(pods.find<Crashes>(uid)) << uid;
  pods.drop<Crashes>("b");
  add_crash(pods, "e");
  EXPECT_TRUE(pods.find<Crashes>("a")) << "there was room";
}

TEST(PodLedger, APodOfWhichNothingIsKnownHasNoRecord) {
  PodLedger pods;
  for (const char* uid : {"a", "b"}) add_crash(pods, uid);
  pods.edit<Place>("b", [](Place&) {});
  add_crash(pods, "a");
  pods.drop_if<Crashes>([](const Crashes& pod) { return pod.count == 2; });
  EXPECT_EQ(pods.size(), 1U);
  pods.drop_if<Crashes>([](const Crashes&) { return true; });
  EXPECT_EQ(pods.size(), 1U) << "its place is known";
  pods.drop<Place>("b");
  EXPECT_EQ(pods.size(), 0U);
}

TEST(PodLedger, ManyThreadsLoseNothing) {
  PodLedger pods(50);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 1000; ++n) {
        add_crash(pods, "shared");
        add_crash(pods, std::to_string(i) + "-" + std::to_string(n));
        if (n % 10 == 0) pods.end("ml", std::to_string(i) + "-" + std::to_string(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pods.find<Crashes>("shared")->count, 4000);
  EXPECT_EQ(pods.size(), 50U);
}

}  // namespace
}  // namespace compilecache::controller
