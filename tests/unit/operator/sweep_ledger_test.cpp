#include "operator/storage/sweep_ledger.hpp"

#include <gtest/gtest.h>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::minutes;

const WallTime kNow = parse_time("2026-01-02T12:00:00Z").value();
constexpr minutes kGrace(20);

std::string ago(minutes age) { return format_time(kNow - age); }

TEST(SweepLedger, HeadsAndTheOnesBeforeThemAreReferenced) {
  api::CompileCacheArchive archive;
  archive.head = {.manifest_digest = "m2", .blobs = {"m2", "c2", "l1", "l2"}};
  archive.previous = {.manifest_digest = "m1", .blobs = {"c1", "l1"}};
  EXPECT_EQ(referenced_digests({archive}),
            (std::set<std::string>{"m1", "c1", "l1", "m2", "c2", "l2"}));
}

TEST(SweepLedger, ListsWhatNobodyNeedsAndKeepsItsFirstTime) {
  LedgerFacts facts{.inventory = {"a", "b", "c"}, .referenced = {"a"}, .now = kNow};
  facts.listed = {{"b", ago(minutes(5))}};
  EXPECT_EQ(condemn(facts),
            (std::vector<api::CondemnedBlob>{{"b", ago(minutes(5))}, {"c", ago(minutes(0))}}));
}

TEST(SweepLedger, WhatIsNeededAgainOrGoneLeavesTheList) {
  LedgerFacts facts{.inventory = {"a"}, .referenced = {"a"}, .now = kNow};
  facts.listed = {{"a", ago(minutes(30))}, {"gone", ago(minutes(30))}};
  EXPECT_TRUE(condemn(facts).empty());
}

TEST(SweepLedger, WhatIsGoneStaysWhileASaveMayCountOnIt) {
  LedgerFacts facts{.inventory = {}, .saves_in_flight = true, .now = kNow};
  facts.listed = {{"gone", ago(minutes(30))}};
  EXPECT_EQ(condemn(facts).size(), 1U);
}

TEST(SweepLedger, WhatWasDeletedAndWrittenAgainGetsANewGrace) {
  LedgerFacts facts{.inventory = {"again", "other"}, .handed = {"again"}, .now = kNow};
  facts.listed = {{"again", ago(minutes(30))}, {"other", ago(minutes(30))}};
  EXPECT_EQ(condemn(facts), (std::vector<api::CondemnedBlob>{{"again", ago(minutes(0))},
                                                             {"other", ago(minutes(30))}}));
}

TEST(SweepLedger, PagesTellWhatOneMessageTells) {
  LedgerFacts whole{.inventory = {"a", "b", "d", "f"},
                    .referenced = {"a"},
                    .handed = {"b", "c", "f"},
                    .now = kNow};
  for (const char* digest : {"a", "b", "c", "e", "f"}) {
    whole.listed.push_back({digest, ago(minutes(30))});
  }
  auto in_pages = whole.listed;
  const auto page = [&](const std::string& after, const std::string& up_to,
                        const std::vector<std::string>& inventory) {
    LedgerFacts facts = whole;
    facts.listed = in_pages;
    facts.inventory = inventory;
    facts.after = after;
    facts.up_to = up_to;
    in_pages = condemn(facts);
  };
  page("", "b", {"a", "b"});
  EXPECT_EQ(in_pages.size(), 4u) << "blobs that were not reported yet stay";
  page("b", "d", {"d"});
  page("b", "d", {"d"});  // a message that was repeated
  page("d", "", {"f"});
  const auto by_digest = [](const auto& x, const auto& y) { return x.digest < y.digest; };
  auto at_once = condemn(whole);
  std::sort(at_once.begin(), at_once.end(), by_digest);
  std::sort(in_pages.begin(), in_pages.end(), by_digest);
  EXPECT_EQ(in_pages, at_once);
  EXPECT_EQ(at_once, (std::vector<api::CondemnedBlob>{
                         {"b", ago(minutes(0))}, {"d", ago(minutes(0))}, {"f", ago(minutes(0))}}));
}

TEST(SweepLedger, TheListIsBounded) {
  LedgerFacts facts{.inventory = {"a", "b", "c"}, .limit = 2, .now = kNow};
  EXPECT_EQ(condemn(facts).size(), 2U);
}

TEST(SweepLedger, DeletesWhatIsUnneededSinceTheGrace) {
  const std::vector<api::CondemnedBlob> listed{{"young", ago(minutes(19))},
                                               {"old", ago(minutes(20))}};
  EXPECT_EQ(deletable_digests(listed, {}, kNow, kGrace), std::vector<std::string>{"old"});
  EXPECT_TRUE(deletable_digests(listed, {"old"}, kNow, kGrace).empty());
}

TEST(SweepLedger, ATimeThatCannotBeReadIsNeverOver) {
  EXPECT_TRUE(deletable_digests({{"a", "yesterday"}}, {}, kNow, kGrace).empty());
}

}  // namespace
}  // namespace compilecache::controller
