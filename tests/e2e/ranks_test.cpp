#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "tests/e2e/leader_worker_set.hpp"
#include "tests/e2e/sandbox.hpp"
#include "tests/e2e/saver_work.hpp"

// docs/how-to/ranks.md with the groups of LeaderWorkerSet's controller: two groups, and eight pods
// in each with $CC_E2E_LONG. An application keeps a folder for its rank where vLLM does.

namespace compilecache::e2e {
namespace {

// Reads what is there, or makes it: as much as Inductor makes of one graph.
constexpr char kApplication[] = R"(
  d=$VLLM_CACHE_ROOT/torch_compile_cache/layout
  ls $d >/tmp/found 2>/dev/null
  d=$d/rank_${LWS_WORKER_INDEX}_0
  mkdir -p $d
  cat $d/model >/dev/null 2>&1 || head -c 20000 /dev/urandom >$d/model
  exec sleep 3600)";

class Ranks : public Sandbox {
 protected:
  static int size() { return std::getenv("CC_E2E_LONG") != nullptr ? 8 : 3; }
  static constexpr int kGroups = 2;

  void start_groups() {
    TorchPod how{"group"};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    json& app = pod["spec"]["containers"][0];
    app["command"] = {"sh", "-c", kApplication};
    // Sixteen fit on a small machine.
    app["resources"] = {{"requests", {{"cpu", "5m"}, {"memory", "16Mi"}}}};
    pod["spec"]["terminationGracePeriodSeconds"] = 5;
    ASSERT_EQ(testing::apply(leader_worker_set(pod, kGroups, size())), "");
    expect_all_ready({});
  }
  [[nodiscard]] json pods() const { return pods_of_groups(ns()); }
  // None of those that were there before.
  void expect_all_ready(const std::set<std::string>& before) {
    ASSERT_TRUE(eventually(seconds(240), [&] {
      const json all = pods();
      return all.size() == static_cast<size_t>(kGroups * size()) &&
             std::all_of(all.begin(), all.end(), [&](const json& pod) {
               return is_ready(pod) && !before.contains(at(pod, "/metadata/uid"));
             });
    })) << pods();
  }
  // The controller recreates a group when one of its pods was deleted.
  void replace_groups() {
    std::set<std::string> before;
    for (const json& pod : pods()) before.insert(at(pod, "/metadata/uid"));
    for (const json& pod : pods()) {
      if (index_of(pod) == "0")
        kubectl({"delete", "pod", at(pod, "/metadata/name"), "-n", ns(), "--wait=false"});
    }
    expect_all_ready(before);
  }
  static std::string index_of(const json& pod) {
    return at(pod, "/metadata/labels/leaderworkerset.sigs.k8s.io~1worker-index");
  }
  // The content of the layout's folder when its application began.
  std::string found_by(const json& pod) const {
    return exec(at(pod, "/metadata/name"), {"cat", "/tmp/found"});
  }
  static std::string folder_of(const std::string& index) { return "rank_" + index + "_0\n"; }
  json archive() const {
    const auto all = archives();
    return all.size() == 1 ? all.front() : json::object();
  }
  // Places whose ranks so many pods in a row agree on.
  int places_known(int after) const {
    int known = 0;
    const json archive_now = archive();
    for (const json& record : at(archive_now, "/status/ranks")) {
      if (record.value("pods", 0) >= after && !record.value("moves", false)) ++known;
    }
    return known;
  }
};

TEST_F(Ranks, OfTwoGroupsAreSavedOnceAndEachPodLoadsItsOwn) {
  create_cache("transformer", {{"frameworks", {"vllm"}}});
  wait_until_ready();
  start_groups();
  std::set<std::string> wanted;
  for (int i = 0; i < size(); ++i)
    wanted.insert("vllm/torch_compile_cache/layout/rank_" + std::to_string(i) + "_0/model");
  EXPECT_TRUE(eventually(seconds(300), [&] {
    return archives().size() == 1 && archived_files(archive()) == wanted;
  })) << archive();
  EXPECT_LE(layers_of(archive()).size(), 4U);
  EXPECT_LE(at(cache(), "/status/saves/committed"), size()) << "one for each rank, of both groups";

  // Two pods of each place in a round.
  for (int round = 0; round < 2; ++round) {
    replace_groups();
    const int agreed = round == 0 ? 2 : 3;
    EXPECT_TRUE(eventually(seconds(240), [&] { return places_known(agreed) == size(); }))
        << at(archive(), "/status/ranks");
  }
  const json head = at(archive(), "/status/head/manifestDigest");
  replace_groups();
  for (const json& pod : pods())
    EXPECT_EQ(found_by(pod), folder_of(index_of(pod))) << "its own and none else";
  EXPECT_EQ(archived_files(archive()), wanted) << "what a pod has not loaded stays";
  EXPECT_EQ(at(archive(), "/status/head/manifestDigest"), head) << "and nothing was new";
}

}  // namespace
}  // namespace compilecache::e2e
