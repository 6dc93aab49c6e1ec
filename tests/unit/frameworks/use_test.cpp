#include "frameworks/use.hpp"

#include <gtest/gtest.h>

#include "tests/unit/frameworks/directory.hpp"

namespace compilecache::frameworks {
namespace {

constexpr int64_t kToday = 20'000;

std::string of(const std::string& family) { return family_hash("torch", family); }

// Files that a pod has read, and files that it got and did not use.
ObservedUse observed(const std::vector<std::string>& read, const std::vector<std::string>& not_read,
                     bool old = false) {
  ObservedUse use;
  for (const auto& family : read) use.read.insert(of(family));
  for (const auto& family : not_read) use.not_read[of(family)] = old;
  return use;
}

// Each pod adds an entry of its own, loads those of all before it, and reads none of them.
TEST(Use, FortyPodsThatEachAddAnEntryDoNotGrowAnArchiveWithoutEnd) {
  UseNote note;
  std::vector<std::string> archive;
  for (int pod = 0; pod < 40; ++pod) {
    note = UseNote::parse(note.dump());
    note.take(observed({"common"}, archive), kToday, true);
    std::erase_if(archive, [&](const auto& entry) { return note.is_dead(of(entry), kToday); });
    note.forget_dead(kToday);
    archive.push_back("entry" + std::to_string(pod));
    EXPECT_LE(archive.size(), UseNote::kMissesAtOnce);
  }
  EXPECT_EQ(archive.back(), "entry39");
}

// A rollout of a day: of each model the first pod saves, and later ones come when all have.
TEST(Use, TwentyModelsOfOneArchiveKeepTheirEntriesThroughTheirFirstRollout) {
  UseNote note;
  std::vector<std::string> archive;
  for (int model = 0; model < 20; ++model) {
    note.take(observed({}, archive), kToday, true);
    archive.push_back("model" + std::to_string(model));
  }
  EXPECT_FALSE(note.has_dead(kToday));
  EXPECT_TRUE(note.saves(observed({"model0"}, {}))) << "its second pod notes that it reads it";
  note.take(observed({"model0"}, archive), kToday, false);
  EXPECT_FALSE(note.is_dead(of("model0"), kToday + 1));
  EXPECT_TRUE(note.is_dead(of("model1"), kToday + 1)) << "nobody has come back for it";
}

TEST(Use, WhatWasReadOnceStaysForTwoWeeks) {
  UseNote note;
  note.take(observed({}, {"entry"}), kToday, true);
  note.take(observed({"entry"}, {}), kToday, true);
  for (int pod = 0; pod < 100; ++pod) note.take(observed({}, {"entry"}), kToday + 1, true);
  EXPECT_FALSE(note.has_dead(kToday + UseNote::kDays - 1));
  EXPECT_TRUE(note.has_dead(kToday + UseNote::kDays));
}

// Nobody knows whether these were read before: pods that only read note nothing.
TEST(Use, AnOldEntryIsTakenForOneThatWasRead) {
  UseNote note;
  for (int pod = 0; pod < 100; ++pod) note.take(observed({}, {"entry"}, true), kToday, true);
  EXPECT_FALSE(note.has_dead(kToday + 1));
}

TEST(Use, APodIsCountedOnce) {
  UseNote note;
  for (int save = 0; save < 100; ++save) note.take(observed({}, {"entry"}), kToday, save == 0);
  EXPECT_FALSE(note.has_dead(kToday));
}

TEST(Use, AnArchiveThatAllPodsReadHasNoRecords) {
  UseNote note;
  note.take(observed({"one", "two"}, {}), kToday, true);
  EXPECT_EQ(note.dump(), "");
  EXPECT_FALSE(note.saves(observed({"one"}, {})));
}

TEST(Use, TheNoteFitsIntoAnArchive) {
  UseNote note;
  std::vector<std::string> many;
  for (int i = 0; i < 10'000; ++i) many.push_back("entry" + std::to_string(i));
  for (int pod = 0; pod < 3; ++pod) note.take(observed({}, many), kToday, true);
  EXPECT_LE(note.dump().size(), 20'000U);
  for (int pod = 0; pod < 20; ++pod) {
    note = UseNote::parse(note.dump());
    note.take(observed({}, many), kToday, true);
  }
  EXPECT_TRUE(note.has_dead(kToday + 1)) << "of many a part goes, and then the next";
}

TEST(Use, NonsenseIsPassedOver) {
  for (const char* text : {"x", "0123456789ab 1 2", "0123456789ab a 2 read", "\n\n"}) {
    EXPECT_TRUE(UseNote::parse(text).empty()) << text;
  }
}

TEST(Use, OfAPodsDirectoryEntriesCountAndWhatBelongsToThem) {
  const Rules rules(torch());
  Directory directory;
  for (const char* path : {"fxgraph/hw/READ/f", "fxgraph/hw/UNREAD/f", "2g/kernel.so",
                           "triton/0/K/__grp__k.json", "triton/0/K/k.cubin"}) {
    directory.load(path);
  }
  directory.read("fxgraph/hw/READ/f", 5);
  directory.read("triton/0/K/k.cubin", 5);
  directory.add("fxgraph/hw/MADE/f", 6);
  ObservedUse use;
  use.add(rules, directory.scan, directory.loaded, at(100));
  EXPECT_EQ(use.read, (std::unordered_set<std::string>{of("fxgraph/hw/READ"), of("triton/0/K"),
                                                       of("fxgraph/hw/MADE")}));
  EXPECT_EQ(use.not_read,
            (std::unordered_map<std::string, bool>{{of("fxgraph/hw/UNREAD"), false}}));
  directory.loaded.reads_visible = false;
  ObservedUse unknown;
  unknown.add(rules, directory.scan, directory.loaded, at(100));
  EXPECT_TRUE(unknown.read.empty() && unknown.not_read.empty());
}

}  // namespace
}  // namespace compilecache::frameworks
