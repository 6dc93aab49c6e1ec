#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>

#include "store/index.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Processes are killed, or give up, at each call of their checkpoint, and are killed at random
// moments. faults_test.cpp kills them at each system call.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

class Kill : public ArchiveTest {
 protected:
  // Makes a head with this many layers; a save on top of four compacts.
  std::string make_head(int layers) {
    std::string head;
    for (int i = 0; i < layers; ++i) {
      const Tree more = {{"f" + std::to_string(i), {noise(150'000, 50 + i), false}}};
      tree_.insert(more.begin(), more.end());
      head = save(more, head, save_request({}, "").settings).archive.manifest;
    }
    return head;
  }

  void expect_whole(const std::string& head) {
    EXPECT_EQ(load(head), tree_);
    fs::remove_all(temp_.path("loaded-" + std::to_string(counter_)));
    const WallTime later = std::chrono::system_clock::now() + std::chrono::hours(1);
    EXPECT_TRUE(store_.remove_incomplete(std::chrono::minutes(1), later));
    for (const std::string& name : names_below(store_.path()))
      EXPECT_FALSE(name.ends_with(".incomplete")) << name;
  }

  // Runs the work in a child process and returns its wait status. The child is killed after the
  // given time, if any.
  static int in_child(const std::function<void()>& work, int kill_after_us = -1) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(0);
    }
    if (kill_after_us >= 0) {
      ::usleep(static_cast<useconds_t>(kill_after_us));
      ::kill(child, SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }

  // Runs the work with a checkpoint that kills it at its n-th call, for every possible n.
  void kill_at_each(const std::function<void(const Checkpoint&)>& work,
                    const std::function<void()>& check) {
    for (int n = 1; n < 1000; ++n) {
      SCOPED_TRACE("killed at stop point " + std::to_string(n));
      const int status = in_child([&] {
        int count = 0;
        work([&](const Progress&) { return ++count != n || ::raise(SIGKILL) != 0; });
      });
      check();
      if (HasFailure() || WIFEXITED(status)) {
        EXPECT_GT(n, 3) << "there is hardly a stop point";
        return;
      }
    }
    ADD_FAILURE() << "there is no end to it";
  }

  Tree tree_;
};

TEST_F(Kill, ASaveOrCompactionKilledAtAnyStopPointLosesNothing) {
  for (const int layers : {1, 4}) {
    tree_.clear();
    const std::string head = make_head(layers);
    const WriteRequest wanted = save_request({{"new", {noise(400'000, 3), false}}}, head);
    kill_at_each(
        [&](const Checkpoint& checkpoint) {
          WriteRequest stopped = wanted;
          stopped.checkpoint = checkpoint;
          (void)write_archive(store_, stopped);
        },
        [&] { expect_whole(head); });
  }
}

TEST_F(Kill, ASaveThatGivesUpAtAnyStopPointLeavesNothing) {
  const std::string head = make_head(4);
  WriteRequest wanted = save_request({{"new", {noise(400'000, 3), false}}}, head);
  const auto before = names_below(store_.path());
  for (int n = 1;; ++n) {
    int count = 0;
    wanted.checkpoint = [&](const Progress&) { return ++count != n; };
    const auto written = write_archive(store_, wanted);
    if (written) break;
    EXPECT_EQ(written.error().code, ErrorCode::kCancelled) << written.error().message;
    EXPECT_EQ(names_below(store_.path()), before) << "given up at stop point " << n;
    ASSERT_LT(n, 1000);
  }
  expect_whole(head);
}

TEST_F(Kill, ALoadKilledAtAnyStopPointLeavesTheStoreAsItWas) {
  const std::string head = make_head(3);
  const auto before = names_below(store_.path());
  ExtractOptions options;
  options.roots = {{"torch", temp_.path("into")}};
  kill_at_each(
      [&](const Checkpoint& checkpoint) {
        ExtractOptions stopped = options;
        stopped.checkpoint = checkpoint;
        (void)extract(store_, head, stopped);
      },
      [&] {
        fs::remove_all(temp_.path("into"));
        EXPECT_EQ(names_below(store_.path()), before);
      });
  expect_whole(head);
}

// A saver and a sweep, killed after random times again and again: CC_KILLS=1000 for longer.
TEST_F(Kill, AtAnyMomentNothingThatWasCommittedIsLost) {
  const uint64_t seed = number_from("CC_TEST_SEED", std::random_device{}());
  const uint64_t kills = number_from("CC_KILLS", 60);
  std::mt19937_64 random(seed);
  const std::string committed = temp_.path("committed");
  std::string head;
  int done = 0;
  int64_t whole_us = 0;  // the first save's, which is not killed
  for (uint64_t round = 0; round < kills; ++round) {
    SCOPED_TRACE("CC_TEST_SEED=" + std::to_string(seed) + ", kill " + std::to_string(round));
    const Tree more = {{"f" + std::to_string(round % 7), {noise(120'000, round), false}},
                       {"g" + std::to_string(round % 3), {noise(900, round), true}}};
    const WriteRequest wanted = save_request(more, head);
    fs::remove(committed);
    const auto begun = std::chrono::steady_clock::now();
    in_child(
        [&] {
          const auto written = write_archive(store_, wanted);
          if (!written) ::_exit(1);
          const IndexEntry entry{
              written->archive.manifest,
              written->archive.manifest_bytes,
              {{kAnnotationName, "main"}, {kAnnotationGeneration, std::to_string(round)}}};
          write_file(committed + ".new", written->archive.manifest);
          fs::rename(committed + ".new", committed);  // the operator's commit
          (void)store_.update_index(entry);
          (void)store_.remove_incomplete(std::chrono::minutes(1),
                                         std::chrono::system_clock::now() + std::chrono::hours(1));
        },
        round == 0 ? -1 : static_cast<int>(random() % (whole_us * 3 / 2 + 1)));
    if (round == 0) {
      whole_us = std::chrono::duration_cast<std::chrono::microseconds>(
                     std::chrono::steady_clock::now() - begun)
                     .count();
    }
    if (fs::exists(committed)) {
      head = read_file(committed);
      for (const auto& [path, file] : more) tree_[path] = file;
      ++done;
    }
    if (!head.empty()) expect_whole(head);
    const Index index = store_.read_index().value();
    EXPECT_TRUE(index.problems.empty());
    for (const IndexEntry& entry : index.entries) EXPECT_TRUE(verify(store_, entry.digest));
    if (HasFailure()) return;
  }
  std::cout << done << " of " << kills << " saves were committed before they were killed\n";
}

}  // namespace
}  // namespace compilecache::archive::test
