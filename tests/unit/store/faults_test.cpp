#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "failing_calls.hpp"
#include "store/index.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Every system call of every operation fails once, in each way that it can. Afterwards loads give
// the state before or after the operation, nothing committed is lost, and nothing unfinished is in
// the way.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;

constexpr unsigned long kMoreThanAny = 3000;

// Thousands of copies of small stores are made in memory if possible, as a disk takes minutes.
[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

WriteSettings small_frames() {
  WriteSettings settings;
  settings.frame_bytes = 64 << 10;
  settings.threads = 1;
  settings.compression_level = 1;
  return settings;
}

IndexEntry index_entry(const std::string& name, int generation, const WriteResult& saved) {
  return {saved.archive.manifest,
          saved.archive.manifest_bytes,
          {{kAnnotationName, name}, {kAnnotationGeneration, std::to_string(generation)}}};
}

class Faults : public ArchiveTest {
 protected:
  // A store with a head of `layers` layers and the archive of another product, both in the index.
  void make_heads(int layers) {
    base_tree_ = {{"a/kept", {noise(150'000, 1), false}},
                  {"a/run", {"#!/bin/sh\n", true}},
                  {"empty", {"", false}}};
    head_ = save(base_tree_, "", small_frames());
    for (int i = 1; i < layers; ++i) {
      const Tree more = {{"more/" + std::to_string(i), {noise(20'000, 100 + i), false}}};
      base_tree_.insert(more.begin(), more.end());
      head_ = save(more, head_.archive.manifest, small_frames());
    }
    other_ = save({{"other", {noise(9'000, 7), false}}}, "", small_frames());
    ASSERT_TRUE(
        store_.write_index({index_entry("main", 1, head_), index_entry("other", 1, other_)}));
  }

  // Restores the store as it was at the last call of remember().
  void remember() { fs::copy(store_.path(), temp_.path("pristine"), fs::copy_options::recursive); }
  // Hard links suffice, as a store's files are replaced and never changed.
  void restore() {
    fs::remove_all(store_.path());
    fs::copy(temp_.path("pristine"), store_.path(),
             fs::copy_options::recursive | fs::copy_options::create_hard_links);
  }

  // Calls `once` again and again, with the first, second, ... call failing, until none does. Each
  // time `check` then gets the outcome, without faults.
  template <typename Outcome>
  unsigned long fail_each(Fault fault, bool onward, const std::function<Outcome()>& once,
                          const std::function<void(Outcome&)>& check) {
    for (unsigned long n = 1; n < kMoreThanAny; ++n) {
      restore();
      std::string what;
      bool happened = false;
      std::optional<Outcome> outcome;
      {
        const FailingCalls calls({fault, n, onward});
        outcome = once();
        happened = calls.happened();
        what = calls.what();
      }
      const ::testing::ScopedTrace trace(
          __FILE__, __LINE__,
          std::string(to_string(fault)) + " at call " + std::to_string(n) + ", " + what);
      check(*outcome);
      if (::testing::Test::HasFailure() || !happened) return n - 1;
    }
    ADD_FAILURE() << "there is no end to it";
    return kMoreThanAny;
  }

  // The same with the process killed at each call, from a child.
  void kill_at_each(const std::function<void()>& once, const std::function<void()>& check) {
    for (unsigned long n = 1; n < kMoreThanAny; ++n) {
      restore();
      const pid_t child = ::fork();
      if (child == 0) {
        const FailingCalls calls({Fault::kKilled, n});
        once();
        ::_exit(0);
      }
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "crashed when it was to be killed at call " << n;
      const ::testing::ScopedTrace trace(__FILE__, __LINE__, "killed at " + std::to_string(n));
      check();
      if (HasFailure() || WEXITSTATUS(status) == 0) return;
    }
    ADD_FAILURE() << "there is no end to it";
  }

  void expect_heads() {
    EXPECT_EQ(load(head_.archive.manifest), base_tree_);
    EXPECT_EQ(load(other_.archive.manifest).size(), 1U);
    fs::remove_all(temp_.path("loaded-" + std::to_string(counter_)));
    fs::remove_all(temp_.path("loaded-" + std::to_string(counter_ - 1)));
    expect_index();
    expect_tidy();
  }
  // Expects that the other archive is in the index, and this one as it was or as `newer`.
  void expect_index(const std::string& newer = "") {
    const Index index = store_.read_index().value();
    EXPECT_TRUE(index.problems.empty());
    ASSERT_EQ(index.entries.size(), 2U) << "an archive is missing in the index";
    EXPECT_TRUE(index.entries[0].digest == head_.archive.manifest ||
                (!newer.empty() && index.entries[0].digest == newer));
    EXPECT_EQ(index.entries[1].digest, other_.archive.manifest);
  }
  // Expects nothing in the store but its own files and those that a sweep recognises as left over.
  void expect_tidy() {
    for (const auto& name : names_below(store_.path())) {
      const std::string last = fs::path(name).filename();
      const bool known = name == "blobs" || name == "blobs/sha256" || name == "nodes" ||
                         name == "index.json" || name == "index.lock" || name == "oci-layout" ||
                         name == "compilecache.json" || name == "nodes/node-1" ||
                         (name.starts_with("blobs/sha256/") && last.size() == 64);
      EXPECT_TRUE(known || last.ends_with(".incomplete")) << name;
    }
  }

  struct Saved {
    Result<WriteResult> written;
    Status indexed;
  };
  Saved save_and_index() {
    WriteRequest request;
    request.parent = head_.archive.manifest;
    request.files = request_files_;
    request.settings = small_frames();
    Saved saved{write_archive(store_, request), {}};
    if (saved.written && !saved.written->nothing_new)
      saved.indexed = store_.update_index(index_entry("main", 2, *saved.written));
    return saved;
  }

  void check_saved(Saved& saved, const Tree& added) {
    EXPECT_EQ(load(head_.archive.manifest), base_tree_) << "what was committed is lost";
    expect_tidy();
    if (!saved.written) {
      expect_index();
      return;
    }
    expect_index(saved.written->archive.manifest);
    Tree expected = base_tree_;
    for (const auto& [path, file] : added) expected[path] = file;
    for (const LeftOut& out : saved.written->left_out) {
      EXPECT_TRUE(out.reason == LeftOutReason::kUnreadable || out.reason == LeftOutReason::kBusy ||
                  out.reason == LeftOutReason::kVanished)
          << out.path << " " << out.detail;
      expected.erase(out.path.substr(6));
    }
    if (!saved.written->nothing_new) {
      EXPECT_EQ(load(saved.written->archive.manifest), expected);
    }
    for (int i = 0; i < 2; ++i)
      fs::remove_all(temp_.path("loaded-" + std::to_string(counter_ - i)));
  }

  void test_saves(int layers, bool compacts) {
    make_heads(layers);
    const Tree added = {{"b/big", {noise(200'000, 2), false}},
                        {"b/same1", {"the same content", false}},
                        {"b/same2", {"the same content", false}},
                        {"c/run", {"#!/bin/true\n", true}}};
    const std::string root = temp_.path("adds");
    write_tree(root, added);
    request_files_ = sources(root);
    remember();
    const std::function<Saved()> once = [&] { return save_and_index(); };
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kShort,
                              Fault::kLate, Fault::kStale, Fault::kNoThread}) {
      const unsigned long calls = fail_each<Saved>(fault, false, once, [&](Saved& saved) {
        check_saved(saved, added);
        if (saved.written) {
          EXPECT_EQ(saved.written->compacted, compacts);
        }
        if (fault == Fault::kInterrupted || fault == Fault::kShort || fault == Fault::kNoThread) {
          ASSERT_TRUE(saved.written) << "this is no failure: " << saved.written.error().message;
          EXPECT_TRUE(saved.written->left_out.empty());
          EXPECT_TRUE(saved.indexed);
        }
      });
      EXPECT_GT(calls, 0U) << to_string(fault);
    }
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull})
      fail_each<Saved>(fault, true, once, [&](Saved& saved) { check_saved(saved, added); });
    kill_at_each([&] { (void)save_and_index(); },
                 [&] {
                   EXPECT_EQ(load(head_.archive.manifest), base_tree_);
                   fs::remove_all(temp_.path("loaded-" + std::to_string(counter_)));
                   expect_tidy();
                   const Index index = store_.read_index().value();
                   ASSERT_EQ(index.entries.size(), 2U);
                   // The archive in the index is whole.
                   EXPECT_TRUE(verify(store_, index.entries[0].digest));
                 });
  }

  Tree base_tree_;
  WriteResult head_;
  WriteResult other_;
  std::vector<SourceFile> request_files_;
};

TEST_F(Faults, ASaveThatFailsAnywhereLosesNothing) { test_saves(1, false); }

TEST_F(Faults, ACompactionThatFailsAnywhereLosesNothing) { test_saves(4, true); }

TEST_F(Faults, ALoadThatFailsAnywhereLeavesAnEmptyDirectory) {
  make_heads(2);
  base_tree_["copy"] = base_tree_["a/kept"];
  head_ = save({{"copy", base_tree_["a/kept"]}}, head_.archive.manifest, small_frames());
  remember();
  for (const bool there : {true, false}) {
    const std::string into = temp_.path("into");
    const std::function<Result<ExtractReport>()> once = [&] {
      return try_load(head_.archive.manifest, into);
    };
    for (const Fault fault : {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kShort,
                              Fault::kNoThread}) {
      if (there) fs::create_directories(into);
      fail_each<Result<ExtractReport>>(
          fault, fault == Fault::kDiskFull, once, [&](Result<ExtractReport>& loaded) {
            if (loaded) {
              EXPECT_EQ(read_tree(into), base_tree_);
            } else {
              EXPECT_TRUE(names_below(into).empty()) << names_below(into).front();
              EXPECT_EQ(fs::exists(into), there);
              EXPECT_NE(loaded.error().code, ErrorCode::kNotFound) << "nothing is missing";
              EXPECT_NE(loaded.error().code, ErrorCode::kCorrupt) << "nothing is damaged";
            }
            if (fault == Fault::kInterrupted || fault == Fault::kShort ||
                fault == Fault::kNoThread) {
              EXPECT_TRUE(loaded) << "this is no failure: " << loaded.error().message;
            }
            fs::remove_all(into);
            if (there) fs::create_directories(into);
          });
    }
    fs::remove_all(into);
  }
}

TEST_F(Faults, ASweepThatFailsAnywhereDeletesOnlyWhatItShould) {
  make_heads(2);
  const auto garbage = save({{"g", {noise(3'000, 9), false}}}, "", small_frames());
  write_file(store_.path() + "/blobs/sha256/dead.incomplete", "half");
  remember();
  struct Swept {
    Result<SweepCounts> incomplete;
    Result<std::vector<StoredBlob>> blobs;
    Result<SweepCounts> deleted;
    Status indexed;
  };
  const std::function<Swept()> once = [&] {
    const WallTime later = std::chrono::system_clock::now() + std::chrono::hours(1);
    return Swept{
        store_.remove_incomplete(std::chrono::minutes(1), later), store_.list(),
        store_.remove(garbage.archive.blobs()),
        store_.write_index({index_entry("main", 1, head_), index_entry("other", 1, other_)})};
  };
  for (const Fault fault : {Fault::kIoError, Fault::kInterrupted, Fault::kLate}) {
    fail_each<Swept>(fault, false, once, [&](Swept& swept) {
      expect_heads();
      if (swept.blobs) {
        // With an incomplete list the operator would forget the missing blobs.
        EXPECT_EQ(swept.blobs->size(), head_.archive.blobs().size() +
                                           other_.archive.blobs().size() +
                                           garbage.archive.blobs().size() + 2);
      }
      if (fault == Fault::kInterrupted) {
        EXPECT_TRUE(swept.incomplete && swept.blobs && swept.deleted && swept.indexed);
      }
    });
  }
  kill_at_each([&] { (void)once(); }, [&] { expect_heads(); });
}

TEST_F(Faults, PreparingThatFailsAnywhereIsDoneByTheNext) {
  make_heads(1);
  const std::string foreign = temp_.path("foreign");
  write_file(foreign + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
  write_file(foreign + "/index.json", R"({"schemaVersion":2,"manifests":[]})");
  const Tree foreign_before = read_tree(foreign);
  remember();
  const std::string fresh = temp_.path("fresh/deep/store");
  struct Prepared {
    Result<store::PreparedStore> again;
    Result<store::PreparedStore> fresh;
    Result<store::PreparedStore> foreign;
    Status noted;
    Result<store::StoreProbe> probe;
  };
  const std::function<Prepared()> once = [&] {
    return Prepared{store_.prepare(owner_, false),
                    store::DirectoryStore(fresh).prepare(owner_, false),
                    store::DirectoryStore(foreign).prepare(owner_, false),
                    store_.note_node_product("node-1", "NVIDIA-L4"), store_.probe()};
  };
  for (const Fault fault :
       {Fault::kIoError, Fault::kDiskFull, Fault::kInterrupted, Fault::kShort, Fault::kLate}) {
    fail_each<Prepared>(fault, false, once, [&](Prepared& prepared) {
      expect_heads();
      EXPECT_FALSE(prepared.foreign) << "taken over from another program";
      EXPECT_EQ(read_tree(foreign), foreign_before);
      const auto retried = store::DirectoryStore(fresh).prepare(owner_, false);
      EXPECT_TRUE(retried) << retried.error().message;
      EXPECT_TRUE(store::DirectoryStore(fresh).read_index()->problems.empty());
      fs::remove_all(temp_.path("fresh"));
      if (fault == Fault::kInterrupted || fault == Fault::kShort) {
        EXPECT_TRUE(prepared.again && prepared.fresh && prepared.noted && prepared.probe);
      }
    });
  }
}

}  // namespace
}  // namespace compilecache::archive::test
