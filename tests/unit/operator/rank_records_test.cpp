#include "operator/archives/rank_records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "kube/json.hpp"
#include "operator/cluster/cluster_view.hpp"

namespace compilecache::controller {
namespace {

using nlohmann::json;
using Texts = std::vector<std::string>;

const std::string kLayout = "vllm/torch_compile_cache/AB";
const Texts kFirst{kLayout + "/rank_0_0", kLayout + "/rank_1_0"};
const Texts kSecond{kLayout + "/rank_2_0", kLayout + "/rank_3_0"};

class RankRecords : public ::testing::Test {
 protected:
  bool note(const std::string& member, const std::string& pod, const Texts& used) {
    return note_ranks(member, pod, used, records);
  }
  Texts own(const std::string& member) { return own_ranks(member, records); }
  std::vector<api::RankRecord> records;
};

TEST_F(RankRecords, AreReliedOnOnceThreePodsAgree) {
  EXPECT_TRUE(note("1", "a", kFirst));
  EXPECT_FALSE(note("1", "a", kFirst)) << "one pod says the same again and again";
  EXPECT_TRUE(note("1", "b", kFirst));
  EXPECT_EQ(own("1"), Texts{});
  EXPECT_TRUE(note("1", "c", kFirst));
  EXPECT_EQ(own("1"), kFirst);
  EXPECT_EQ(own("2"), Texts{}) << "of another place nothing is known";
  EXPECT_EQ(own(""), Texts{});
  EXPECT_FALSE(note("1", "d", kFirst)) << "nothing more to write";
}

TEST_F(RankRecords, OnePodsRanksComeOneByOne) {
  note("1", "a", {kFirst[0]});
  note("1", "a", kFirst);
  note("1", "b", {kFirst[0]});
  note("1", "c", {kFirst[0]});
  EXPECT_EQ(own("1"), Texts{}) << "b and c have perhaps ended early";
  note("1", "b", kFirst);
  note("1", "c", kFirst);
  EXPECT_EQ(own("1"), kFirst);
}

TEST_F(RankRecords, WhereRanksMoveNothingIsLeftOutAnyMore) {
  for (const char* pod : {"a", "b", "c"}) note("1", pod, kFirst);
  ASSERT_EQ(own("1"), kFirst);
  note("1", "d", {kFirst[0], kFirst[1], kSecond[0]});
  for (const char* pod : {"e", "f", "g"}) {
    EXPECT_EQ(own("1"), Texts{}) << pod;
    note("1", pod, {kFirst[0], kFirst[1], kSecond[0]});
  }
}

TEST_F(RankRecords, EachLayoutIsKnownByItself) {
  for (const char* pod : {"a", "b", "c"}) note("1", pod, kFirst);
  note("1", "d", {"vllm/torch_compile_cache/CD/rank_9_0"});
  EXPECT_EQ(own("1"), kFirst);
}

TEST_F(RankRecords, WhatPodsSayIsBounded) {
  EXPECT_FALSE(note("", "a", kFirst));
  EXPECT_FALSE(note(std::string(200, 'm'), "a", kFirst));
  EXPECT_FALSE(note("1", "a", {"", "/", "vllm", "vllm/", std::string(300, 'x') + "/rank_0"}));
  Texts many;
  for (int i = 0; i < 100; ++i) many.push_back(kLayout + "/rank_" + std::to_string(i));
  note("1", "a", many);
  EXPECT_LE(records.at(0).ranks.size(), api::kMostRanksOfMember);
  for (const char* pod : {"b", "c", "d"}) note("1", pod, many);
  EXPECT_EQ(own("1"), Texts{}) << "what is cut off must not be left out";
  for (int i = 0; i < 400; ++i) note(std::to_string(i), "a", {kFirst[0]});
  EXPECT_EQ(records.size(), api::kMostRankRecords);
  EXPECT_EQ(records.back().member, "399") << "the oldest go";
}

// One pod after another reports as much as an agent can; etcd takes 1.5 MiB of an object.
TEST_F(RankRecords, AllTogetherTheyFitIntoOneObject) {
  for (int i = 0; i < 300; ++i) {
    Texts directories;
    const std::string number = std::to_string(i);
    const std::string layout = std::string(150, 'l') + number;
    for (int rank = 0; rank < 64; ++rank) {
      directories.push_back(layout + "/rank_" + std::string(80, '1') + std::to_string(rank));
    }
    note(std::string(120, 'm') + number, "pod-" + number, directories);
  }
  api::CompileCacheArchive archive;
  archive.ranks = records;
  EXPECT_FALSE(records.empty());
  EXPECT_EQ(records.back().pod, "pod-299");
  EXPECT_LT(api::status_json(archive).dump().size(), size_t{160} << 10);
}

// Whatever pods do: those whose place always has the same ranks load these in the end, and one
// whose ranks moved is not given less than all after that.
TEST_F(RankRecords, OfManyHistoriesNoneLeavesOutWhatAPlaceHasUsed) {
  std::mt19937 random(7);
  for (int history = 0; history < 300; ++history) {
    records.clear();
    std::map<std::string, std::set<std::string>> used;
    for (int pod = 0; pod < 40; ++pod) {
      const std::string member = std::to_string(random() % 4);
      const size_t ranks = random() % 3 == 0 ? random() % 4 : std::stoul(member);
      const std::string rank = kLayout + "/rank_" + std::to_string(ranks);
      note(member, "pod-" + std::to_string(pod), {rank});
      used[member].insert(rank);
      const Texts loaded = own(member);
      if (!loaded.empty()) {
        EXPECT_TRUE(
            std::equal(loaded.begin(), loaded.end(), used[member].begin(), used[member].end()));
      }
      EXPECT_TRUE(loaded.empty() || used[member].size() == 1);
    }
  }
}

PodView pod_with(const json& labels) {
  const json pod{{"metadata", {{"namespace", "ml"}, {"name", "p"}, {"labels", labels}}}};
  // As the reflector reads it.
  return parse_pod(kube::parse_json(pod.dump(), pod_fields())).value();
}

TEST(PodGroups, AreKnownByTheirControllersLabels) {
  const PodView worker = pod_with({{"leaderworkerset.sigs.k8s.io/group-key", "3e23"},
                                   {"leaderworkerset.sigs.k8s.io/worker-index", "1"},
                                   {"apps.kubernetes.io/pod-index", "4"}});
  EXPECT_EQ(worker.group.id, "leaderworkerset.sigs.k8s.io/group-key=3e23");
  EXPECT_EQ(worker.group.member, "leaderworkerset.sigs.k8s.io/worker-index=1");
  const PodView child = pod_with({{"jobset.sigs.k8s.io/jobset-uid", "u"},
                                  {"jobset.sigs.k8s.io/job-global-index", "2"},
                                  {"batch.kubernetes.io/job-completion-index", "3"}});
  EXPECT_EQ(child.group.id, "jobset.sigs.k8s.io/jobset-uid=u");
  EXPECT_EQ(child.group.member,
            "jobset.sigs.k8s.io/job-global-index=2,batch.kubernetes.io/job-completion-index=3");
  const PodView job = pod_with({{"batch.kubernetes.io/job-completion-index", "3"}});
  EXPECT_EQ(job.group.id, "") << "a Job's pods need not run together";
  EXPECT_EQ(job.group.member, "batch.kubernetes.io/job-completion-index=3");
  EXPECT_EQ(pod_with({{"apps.kubernetes.io/pod-index", "0"}}).group.member,
            "apps.kubernetes.io/pod-index=0");
  for (const char* label : {"ray.io/cluster", "volcano.sh/job-name",
                            "kueue.x-k8s.io/pod-group-name", "scheduling.x-k8s.io/pod-group"}) {
    const PodView pod = pod_with({{label, "x"}});
    EXPECT_EQ(pod.group.id, std::string(label) + "=x");
    EXPECT_EQ(pod.group.member, "");
  }
  EXPECT_EQ(pod_with({{"app", "web"}}).group.id, "");
}

}  // namespace
}  // namespace compilecache::controller
