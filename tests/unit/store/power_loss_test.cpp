#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "archive/fs.hpp"
#include "base/sha256.hpp"
#include "recorded_calls.hpp"
#include "store/directory/layout.hpp"
#include "store/index.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// The power fails after every step of preparing, saving, compacting and sweeping, and the disk has
// lost or reordered unsynced writes. Reported saves load, the index names whole archives only, and
// the next program goes on as if nothing had happened.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

// Thousands of small stores are made in memory if possible, as a disk takes minutes.
[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

// States of the disk tried after each step; CC_POWER_LOSS_STATES=200 tries more, by hand.
size_t states_per_step() {
  const char* text = std::getenv("CC_POWER_LOSS_STATES");
  return text == nullptr ? 12 : std::strtoul(text, nullptr, 10);
}

class PowerLoss : public ArchiveTest {
 protected:
  // Something that holds from one step on until another one.
  struct Promise {
    size_t from;
    std::string manifest;
    Tree tree;
    size_t until = SIZE_MAX;
  };

  [[nodiscard]] std::string store_in(const std::string& volume) const { return volume + "/a/b"; }

  WriteRequest request(const Tree& tree, const std::string& parent) {
    WriteRequest request = save_request(tree, parent);
    request.settings.threads = 1;
    return request;
  }

  // Saves on top of the last one, as an agent does, and notes what is promised from then on.
  void save_head(const Recording& recording, const Tree& tree) {
    const auto written = write_into(store_in(volume_), request(tree, head_));
    ASSERT_TRUE(written) << written.error().message;
    for (const auto& [path, file] : tree) tree_[path] = file;
    compacted_ = compacted_ || written->compacted;
    head_ = written->archive.manifest;
    blobs_.push_back(written->archive.blobs());
    promises_.push_back({recording.events(), head_, tree_});
    index_head(recording, written->archive);
  }

  void index_head(const Recording& recording, const ArchiveInfo& archive) {
    const IndexEntry entry{
        archive.manifest,
        archive.manifest_bytes,
        {{kAnnotationName, "main"}, {kAnnotationGeneration, std::to_string(++generation_)}}};
    ASSERT_TRUE(store::DirectoryStore(store_in(volume_)).update_index(entry));
    indexed_.push_back(recording.events());
  }

  // Deletes the blobs that only earlier archives have.
  void sweep(const Recording& recording) {
    std::vector<std::string> garbage;
    for (size_t i = 0; i + 1 < promises_.size(); ++i) {
      promises_[i].until = recording.events();
      for (const std::string& digest : blobs_[i]) {
        const auto& kept = blobs_.back();
        if (std::find(kept.begin(), kept.end(), digest) == kept.end()) garbage.push_back(digest);
      }
    }
    const auto deleted = store::DirectoryStore(store_in(volume_)).remove(garbage);
    ASSERT_TRUE(deleted);
    EXPECT_GT(deleted->removed, 0U);
    const WallTime later = std::chrono::system_clock::now() + std::chrono::hours(1);
    ASSERT_TRUE(
        store::DirectoryStore(store_in(volume_)).remove_incomplete(std::chrono::minutes(1), later));
  }

  void check(const std::string& volume, size_t events) {
    const std::string store = store_in(volume);
    for (const auto& promise : promises_) {
      if (events < promise.from || events > promise.until) continue;
      EXPECT_EQ(load_from(store, promise.manifest), promise.tree) << "what was saved is lost";
    }
    check_blobs(store);
    const Index index = store::DirectoryStore(store).read_index().value();
    size_t generations = 0;
    while (generations < indexed_.size() && indexed_[generations] <= events) ++generations;
    if (events >= prepared_) {
      EXPECT_TRUE(index.problems.empty()) << index.problems.front();
    }
    for (const IndexEntry& entry : index.entries) {
      EXPECT_GE(entry.generation(), generations) << "the index was rolled back";
      const auto verified = verify(store::DirectoryStore(store), entry.digest);
      EXPECT_TRUE(verified) << verified.error().message;
    }
    if (generations > 0) {
      EXPECT_EQ(index.entries.size(), 1U);
    }
    go_on(store);
  }

  // Checks that every file with a blob's name has that blob's content.
  static void check_blobs(const std::string& store) {
    const auto blobs = store::DirectoryStore(store).list();
    if (!blobs) return;  // not prepared yet
    for (const StoredBlob& blob : *blobs)
      EXPECT_EQ("sha256:" + sha256_hex(read_file(store::blob_path(store, blob.digest))),
                blob.digest);
  }

  Tree load_from(const std::string& store, const std::string& manifest) {
    const std::string into = temp_.path("into");
    ExtractOptions options;
    options.roots = {{"torch", into}};
    options.threads = 1;
    const auto loaded = extract(store::DirectoryStore(store), manifest, options);
    EXPECT_TRUE(loaded) << loaded.error().message;
    Tree tree = loaded ? read_tree(into) : Tree{};
    fs::remove_all(into);
    return tree;
  }

  // Checks that the next Job and the next saver can work.
  void go_on(const std::string& store) {
    const auto prepared = store::DirectoryStore(store).prepare(owner_, false);
    ASSERT_TRUE(prepared) << prepared.error().message;
    const auto written = write_into(store, next_);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(load_from(store, written->archive.manifest), next_tree_);
    const WallTime later = std::chrono::system_clock::now() + std::chrono::hours(1);
    EXPECT_TRUE(store::DirectoryStore(store).remove_incomplete(std::chrono::minutes(1), later));
    for (const std::string& name : names_below(store))
      EXPECT_FALSE(name.ends_with(".incomplete")) << name << " is left over";
  }

  void check_every_step(const Recording& recording) {
    ASSERT_EQ(recording.live(recording.events()), read_disk(volume_))
        << "something was done to the store that this test does not see";
    const char* given = std::getenv("CC_TEST_SEED");
    const uint64_t seed =
        given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
    std::mt19937_64 random(seed);
    size_t states = 0;
    for (size_t events = 0; events <= recording.events() && !HasFailure(); ++events) {
      for (const Disk& disk : recording.after_power_loss(events, random, states_per_step())) {
        const ::testing::ScopedTrace trace(
            __FILE__, __LINE__,
            "CC_TEST_SEED=" + std::to_string(seed) + ", after event " + std::to_string(events) +
                (events == 0 ? "" : ", " + recording.describe(events - 1)));
        write_disk(disk, temp_.path("crashed"));
        check(temp_.path("crashed"), events);
        ++states;
        if (HasFailure()) return;
      }
    }
    std::cout << states << " states after " << recording.events() << " steps, CC_TEST_SEED=" << seed
              << "\n";
  }

  const std::string volume_ = temp_.path("volume");
  size_t prepared_ = SIZE_MAX;
  std::vector<Promise> promises_;
  std::vector<size_t> indexed_;  // from when the index has generation 1, 2, ...
  std::vector<std::vector<std::string>> blobs_;
  std::string head_;
  Tree tree_;
  uint64_t generation_ = 0;
  bool compacted_ = false;
  Tree next_tree_;
  WriteRequest next_;
};

TEST_F(PowerLoss, WhatWasSavedIsThereAfterEveryStep) {
  fs::create_directories(volume_);
  // The save after each power failure saves the same files again, and so makes the same blobs.
  const Tree first = {{"a/kept", {noise(3'000, 1), false}}, {"run", {"#!/bin/sh\n", true}}};
  next_tree_ = first;
  next_ = request(first, "");
  Recording recording(volume_);
  ASSERT_TRUE(store::DirectoryStore(store_in(volume_)).prepare(owner_, false));
  prepared_ = recording.events();
  save_head(recording, first);
  ASSERT_TRUE(store::DirectoryStore(store_in(volume_)).note_node_product("node-1", "NVIDIA-L4"));
  for (int i = 0; i < 4; ++i)
    save_head(recording, {{"more/" + std::to_string(i), {noise(1'500, 10 + i), false}}});
  EXPECT_TRUE(compacted_);
  sweep(recording);
  recording.stop();
  check_every_step(recording);
}

// Checks the model itself: otherwise the test above might not see any loss.
TEST_F(PowerLoss, TheModelForgetsWhatWasNotSynced) {
  fs::create_directories(volume_);
  Recording recording(volume_);
  const std::string path = volume_ + "/file";
  {
    Fd fd(create_file(path));
    ASSERT_TRUE(write_all(fd.get(), std::vector<uint8_t>(100, 'x'), path));
  }
  recording.stop();
  std::mt19937_64 random(1);
  const auto states = recording.after_power_loss(recording.events(), random, 100);
  const auto has = [&](const Disk& wanted) {
    return std::find(states.begin(), states.end(), wanted) != states.end();
  };
  EXPECT_TRUE(has({}));
  EXPECT_TRUE(has({{{"file", ""}}, {}}));
  EXPECT_TRUE(has({{{"file", std::string(100, 'x')}}, {}}));
  EXPECT_TRUE(has({{{"file", std::string(100, '\0')}}, {}}));
  EXPECT_TRUE(has({{{"file", std::string(50, '\0') + std::string(50, 'x')}}, {}}));
}

}  // namespace
}  // namespace compilecache::archive::test
