#include <set>

#include "tests/e2e/leader_worker_set.hpp"
#include "tests/e2e/sandbox.hpp"
#include "tests/e2e/saver_work.hpp"

// LeaderWorkerSet's controller recreates a whole group when any container of one of its pods was
// started again, init containers too (its default policy, RecreateGroupOnPodRestart). It does not
// see the end of a saver's worker process.

namespace compilecache::e2e {
namespace {

class LeaderWorkerSet : public Sandbox {
 protected:
  // One group of a leader and a worker, both annotated.
  void start_group(const std::string& entry) {
    TorchPod how{"group"};
    how.image = "docker.io/library/debian:bookworm-slim";
    json pod = manifest(how);
    write_one_entry(pod["spec"], entry);
    ASSERT_EQ(testing::apply(leader_worker_set(pod, 1, 2)), "");
    ASSERT_TRUE(eventually(seconds(120), [&] {
      const json pods = group();
      return pods.size() == 2 && is_ready(pods[0]) && is_ready(pods[1]);
    })) << group();
    for (const json& member : group()) ASSERT_FALSE(saver_status(member).empty()) << member;
  }
  [[nodiscard]] json group() const { return pods_of_groups(ns()); }
  [[nodiscard]] std::set<std::string> uids() const {
    std::set<std::string> all;
    for (const json& pod : group()) all.insert(at(pod, "/metadata/uid"));
    return all;
  }
  // The controller watches the pods, and would act: a container that was started again ends the
  // group.
  void expect_that_a_restart_would_end_it() {
    const std::set<std::string> before = uids();
    ASSERT_TRUE(kill_saver(group()[0], SaverProcess::kSupervisor));
    EXPECT_TRUE(eventually(seconds(120), [&] {
      const std::set<std::string> now = uids();
      for (const std::string& uid : before) {
        if (now.count(uid) != 0) return false;
      }
      return now.size() == 2;
    })) << group();
  }
};

TEST_F(LeaderWorkerSet, KeepsAGroupWhoseSaversAreKilled) {
  create_cache("transformer", {{"save", {{"quietPeriod", "10s"}}}});
  wait_until_ready();
  start_group("echo entry");
  const std::set<std::string> before = uids();
  for (int round = 0; round < 5; ++round) {
    for (const json& member : group()) {
      ASSERT_TRUE(eventually(seconds(120), [&] { return kill_saver(member, SaverProcess::kWork); }))
          << member;
    }
  }
  wait_for_save(1, "", seconds(180));
  EXPECT_EQ(uids(), before);
  for (const json& member : group()) expect_undisturbed(member);
  expect_that_a_restart_would_end_it();
}

TEST_F(LeaderWorkerSet, KeepsAGroupWhoseSaversHaveTooLittleMemory) {
  const json range{
      {"apiVersion", "v1"},
      {"kind", "LimitRange"},
      {"metadata", {{"name", "small"}, {"namespace", ns()}}},
      {"spec", {{"limits", {{{"type", "Container"}, {"max", {{"memory", "32Mi"}}}}}}}}};
  create_cache();
  wait_until_ready();
  ASSERT_EQ(testing::apply(range), "");
  start_group("head -c 48000000 /dev/urandom");
  const std::set<std::string> before = uids();
  for (const json& member : group()) {
    const std::string name = at(member, "/metadata/name");
    EXPECT_TRUE(eventually(seconds(180), [&] {
      const std::string log = logs(name, kSaverContainer);
      return log.find("memory that the container's limit leaves") != std::string::npos ||
             log.find("started again") != std::string::npos;
    })) << logs(name, kSaverContainer);
  }
  EXPECT_EQ(uids(), before);
  for (const json& member : group()) expect_undisturbed(member);
  expect_that_a_restart_would_end_it();
}

}  // namespace
}  // namespace compilecache::e2e
