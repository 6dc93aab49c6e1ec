#include "kube/store.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.hpp"

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

struct Thing {
  std::string name, owner;
};
using Things = Store<Thing>;

Things::Ptr thing(const std::string& name, const std::string& owner) {
  return std::make_shared<const Thing>(Thing{name, owner});
}
std::vector<std::string> names(const std::vector<Things::Ptr>& things) {
  std::vector<std::string> names;
  for (const auto& each : things) names.push_back(each->name);
  return names;
}
using Names = std::vector<std::string>;

class StoreIndexTest : public ::testing::Test {
 protected:
  Things things;
  const Things::Index by_owner{things, [](const Thing& each) { return each.owner; }};
};

TEST_F(StoreIndexTest, FindsWhatIsThereByItsValueSortedByKey) {
  things.upsert("ml/b", thing("b", "x"));
  things.upsert("ml/a", thing("a", "x"));
  things.upsert("ml/c", thing("c", "y"));
  EXPECT_EQ(names(by_owner.list("x")), (Names{"a", "b"}));
  EXPECT_EQ(names(by_owner.list("y")), Names{"c"});
  EXPECT_EQ(names(by_owner.list("")), Names{});
  const Things::Index late(things, [](const Thing& each) { return each.name + each.owner; });
  EXPECT_EQ(names(late.list("cy")), Names{"c"}) << "what was there before the index";
}

TEST_F(StoreIndexTest, FollowsAnUpdateADeletionAndARelist) {
  things.upsert("ml/a", thing("a", "x"));
  things.upsert("ml/a", thing("a2", "x"));
  EXPECT_EQ(names(by_owner.list("x")), Names{"a2"}) << "the newest state";
  things.upsert("ml/a", thing("a3", "y"));
  EXPECT_EQ(names(by_owner.list("x")), Names{});
  EXPECT_EQ(names(by_owner.list("y")), Names{"a3"});
  things.replace({{"ml/b", thing("b", "y")}, {"ml/c", thing("c", "x")}});
  EXPECT_EQ(names(by_owner.list("y")), Names{"b"});
  things.erase("ml/b", thing("b", "as it went, of another"));
  EXPECT_EQ(names(by_owner.list("y")), Names{});
  EXPECT_EQ(names(by_owner.list("as it went, of another")), Names{});
  EXPECT_EQ(names(by_owner.list("x")), Names{"c"});
}

TEST_F(StoreIndexTest, ShowsAChangeBeforeItsHandlerRuns) {
  Names seen;
  things.add_handlers({[&](const std::string&, const Things::Ptr&, const Things::Ptr&) {
    seen = names(by_owner.list("x"));
  }});
  things.upsert("ml/a", thing("a", "x"));
  EXPECT_EQ(seen, Names{"a"});
  things.erase("ml/a", nullptr);
  EXPECT_EQ(seen, Names{});
}

// Whatever happens, the index finds what a filter of the whole list would.
TEST_F(StoreIndexTest, FindsWhatAFilterFinds) {
  const Random random = seeded_random(1);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  const auto any_key = [&] { return "ml/" + std::to_string(below(12)); };
  const auto any_thing = [&] { return thing(std::to_string(random()), std::to_string(below(4))); };
  for (int step = 0; step < 5'000; ++step) {
    switch (below(8)) {
      case 0: {
        std::vector<Things::Item> items;
        for (uint64_t left = below(15); left > 0; --left) {
          items.emplace_back(any_key(), below(5) == 0 ? nullptr : any_thing());
        }
        things.replace(std::move(items));
        break;
      }
      case 1:
      case 2:
        things.erase(any_key(), below(2) == 0 ? nullptr : any_thing());
        break;
      default:
        things.upsert(any_key(), any_thing());
    }
    for (const std::string owner : {"0", "1", "2", "3", "4"}) {
      auto filtered = things.list();
      std::erase_if(filtered, [&](const auto& each) { return each->owner != owner; });
      ASSERT_EQ(by_owner.list(owner), filtered) << "step " << step << ", owner " << owner;
    }
  }
}

}  // namespace
}  // namespace compilecache::kube
