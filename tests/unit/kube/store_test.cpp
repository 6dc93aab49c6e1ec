#include "kube/store.hpp"

#include <gtest/gtest.h>

namespace compilecache::kube {
namespace {

using Ints = Store<int>;

std::string show(const Ints::Ptr& value) { return value ? std::to_string(*value) : "-"; }
Ints::Ptr make(int value) { return std::make_shared<const int>(value); }

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    store.add_handlers(
        {[this](const std::string& key, const Ints::Ptr& before, const Ints::Ptr& after) {
          EXPECT_EQ(store.get(key), after) << "the store shows the change before the handler runs";
          seen.push_back(key + " " + show(before) + " " + show(after));
        }});
  }
  Ints store;
  std::vector<std::string> seen;
};

TEST_F(StoreTest, TellsOfAddUpdateAndDeleteInOrder) {
  store.upsert("a/1", make(1));
  store.upsert("a/1", make(2));
  store.erase("a/1", make(3));
  EXPECT_EQ(seen, (std::vector<std::string>{"a/1 - 1", "a/1 1 2", "a/1 3 -"}));
}

TEST_F(StoreTest, ReplaceReportsWhatVanishedWithItsLastState) {
  store.upsert("a/1", make(1));
  store.upsert("a/2", make(2));
  seen.clear();
  EXPECT_FALSE(store.has_synced());
  store.replace({{"a/2", make(20)}, {"a/3", make(3)}});
  EXPECT_EQ(seen, (std::vector<std::string>{"a/1 1 -", "a/2 2 20", "a/3 - 3"}));
  EXPECT_TRUE(store.has_synced());
  EXPECT_EQ(store.size(), 2U);
}

TEST_F(StoreTest, DeletingWhatIsNotThereSaysNothing) {
  store.erase("a/1", nullptr);
  EXPECT_TRUE(seen.empty());
}

TEST_F(StoreTest, LateHandlersHearOfWhatIsThere) {
  store.upsert("a/1", make(1));
  std::vector<std::string> late;
  store.add_handlers({[&](const std::string& key, const Ints::Ptr& before, const Ints::Ptr& after) {
    late.push_back(key + " " + show(before) + " " + show(after));
  }});
  store.upsert("a/2", make(2));
  EXPECT_EQ(late, (std::vector<std::string>{"a/1 - 1", "a/2 - 2"}));
}

TEST_F(StoreTest, OfSeveralItemsWithOneKeyTheLastCounts) {
  store.replace({{"a/2", make(1)}, {"a/1", make(1)}, {"a/2", make(2)}, {"a/1", nullptr}});
  EXPECT_EQ(seen, std::vector<std::string>{"a/2 - 2"});
  store.replace({{"a/3", make(3)}, {"a/2", make(4)}, {"a/2", nullptr}});
  EXPECT_EQ(seen, (std::vector<std::string>{"a/2 - 2", "a/2 2 -", "a/3 - 3"}));
}

TEST_F(StoreTest, WhatIsThereAtTheStartIsToldApart) {
  Ints fresh;
  std::vector<std::string> told;
  const auto tell = [&](const std::string& how) {
    return [&told, how](const std::string& key, const auto&, const auto&) {
      told.push_back(how + " " + key);
    };
  };
  fresh.add_handlers({.on_change = tell("now"), .on_start = tell("start")});
  fresh.replace({{"a/1", make(1)}});
  fresh.upsert("a/2", make(2));
  fresh.replace({{"a/2", make(2)}, {"a/3", make(3)}});
  fresh.add_handlers({.on_change = tell("late now"), .on_start = tell("late start")});
  EXPECT_EQ(told, (std::vector<std::string>{"start a/1", "now a/2", "now a/1", "now a/2", "now a/3",
                                            "late start a/2", "late start a/3"}));
}

TEST_F(StoreTest, ListsOneNamespace) {
  for (const char* key : {"a/1", "ab/1", "a/2", "b/1"}) store.upsert(key, make(1));
  EXPECT_EQ(store.list("a").size(), 2U);
  EXPECT_EQ(store.list().size(), 4U);
  EXPECT_EQ(store.get("c/1"), nullptr);
}

}  // namespace
}  // namespace compilecache::kube
