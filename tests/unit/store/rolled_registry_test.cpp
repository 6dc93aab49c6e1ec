#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/mutex.hpp"
#include "base/time_format.hpp"
#include "operator/archives/save_rules.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "store/registry/registry_store.hpp"
#include "tests/support/registry_process.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Sixteen savers, loaders and sweeps on a real registry, by the operator's own rules for commits
// and deletes, while the registry's pod is recreated again and again. It ends or is killed, the
// init container's script collects unused blobs, and it starts. A head, and the head
// before it, always loads exactly. CC_ROUNDS=100 for more.

namespace compilecache::store::test {
namespace {

using archive::test::Tree;
using controller::SaveInFlight;
using std::chrono::milliseconds;
using testing::RegistryKind;
using testing::RegistryProcess;

[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

constexpr const char* kCache = "ml/demo";
const controller::SaveContext kPod{.ns = "ml", .pod = "web-1", .cache = "demo"};
constexpr int kSavers = 16, kLoaders = 2, kRounds = 4;
constexpr milliseconds kRound{1500};  // between two rolls
// So few that the same blobs are made again, and savers wait for each other's.
constexpr int kArchives = 12, kPaths = 12, kContents = 3;
// Shorter than a load may take here, so that some lose their archive to a sweep.
constexpr milliseconds kGrace{300};

int rounds() {
  const char* text = std::getenv("CC_ROUNDS");
  return text == nullptr ? kRounds : std::atoi(text);
}

// The operator in few words: which archives there are, which save may commit, what a sweep may
// delete. Thread-safe.
class Operator {
 public:
  struct Grant {
    int archive = 0;
    SaveInFlight save;
    std::string parent;
    Tree tree;  // of the parent
  };
  Grant grant(int archive) {
    const MutexLock lock(mutex_);
    Grant grant{archive, {std::to_string(archive), ++fence_}, "", {}};
    if (controller::extends_head(kPod, {}, archives_[archive])) {
      grant.parent = archives_[archive].head.manifest_digest;
      grant.tree = trees_[grant.parent];
    }
    in_flight_.insert(grant.save);
    return grant;
  }
  // False: another save was first, or a sweep has what it names on its list.
  bool commit(const Grant& grant, const archive::ArchiveInfo& written, Tree tree) {
    const MutexLock lock(mutex_);
    auto& archive = archives_[grant.archive];
    const api::CommitRequest request{.fence = grant.save.fence,
                                     .parent_digest = grant.parent,
                                     .manifest_digest = written.manifest,
                                     .blobs = written.blobs()};
    if (!grant.parent.empty() && archive.head.manifest_digest != grant.parent) return false;
    if (!controller::unfit(kPod, request, archive, {}).empty()) return false;
    for (const std::string& blob : request.blobs) {
      if (guard_.refuses(kCache, grant.save, blob)) return false;
    }
    controller::put_head(kPod, request, format_time(now()), archive);
    trees_[written.manifest] = std::move(tree);
    return true;
  }
  void is_over(const Grant& grant) {
    const MutexLock lock(mutex_);
    in_flight_.erase(grant.save);
  }
  void forget(int archive) {  // kubectl delete
    const MutexLock lock(mutex_);
    archives_[archive] = {};
  }

  [[nodiscard]] std::string head(int archive) const {
    const MutexLock lock(mutex_);
    return archives_[archive].head.manifest_digest;
  }
  [[nodiscard]] bool needs(const std::string& blob) const {
    const MutexLock lock(mutex_);
    return controller::referenced_digests(archives_).contains(blob);
  }
  [[nodiscard]] Tree tree(const std::string& manifest) const {
    const MutexLock lock(mutex_);
    return trees_.at(manifest);
  }
  // Heads and previous ones.
  [[nodiscard]] std::set<std::string> current() const {
    const MutexLock lock(mutex_);
    std::set<std::string> manifests;
    for (const auto& archive : archives_) {
      for (const auto* head : {&archive.head, &archive.previous}) {
        if (head->exists()) manifests.insert(head->manifest_digest);
      }
    }
    return manifests;
  }
  [[nodiscard]] std::set<std::string> referenced() const {
    const MutexLock lock(mutex_);
    return controller::referenced_digests(archives_);
  }

  std::vector<std::string> begin_sweep() {
    const MutexLock lock(mutex_);
    const auto list = controller::deletable_digests(
        listed_, controller::referenced_digests(archives_), now(), kGrace);
    guard_.begins(kCache, list, saves());
    return list;
  }
  void end_sweep(const std::vector<StoredBlob>& blobs) {
    const MutexLock lock(mutex_);
    controller::LedgerFacts facts;
    for (const StoredBlob& blob : blobs) facts.inventory.push_back(blob.digest);
    facts.referenced = controller::referenced_digests(archives_);
    facts.listed = listed_;
    facts.handed = guard_.ends(kCache, saves());
    facts.saves_in_flight = !in_flight_.empty();
    facts.now = now();
    listed_ = controller::condemn(facts);
  }

 private:
  static WallTime now() { return SystemClock::instance().wall(); }
  [[nodiscard]] std::vector<SaveInFlight> saves() const REQUIRES(mutex_) {
    return {in_flight_.begin(), in_flight_.end()};
  }

  mutable Mutex mutex_;
  std::vector<api::CompileCacheArchive> archives_ GUARDED_BY(mutex_) =
      std::vector<api::CompileCacheArchive>(kArchives);
  std::map<std::string, Tree> trees_
      GUARDED_BY(mutex_);  // of every manifest that was ever committed
  std::set<SaveInFlight> in_flight_ GUARDED_BY(mutex_);
  std::vector<api::CondemnedBlob> listed_ GUARDED_BY(mutex_);
  controller::SweepGuard guard_;
  int64_t fence_ GUARDED_BY(mutex_) = 0;
};

class RolledRegistry : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = testing::missing_registry(RegistryKind::kDistribution);
    if (!missing.empty()) GTEST_SKIP() << missing;
    registry_ =
        std::make_unique<RegistryProcess>(RegistryKind::kDistribution, temp_.path("registry"));
    ASSERT_EQ(registry_->problem(), "");
  }
  void TearDown() override { stop(); }

  [[nodiscard]] RegistryOptions options() const {
    return {.host = registry_->host(),
            .repository = kCache,
            .plain_http = true,
            .spool_folder = temp_.path(),
            // So that some saves outlast a roll and some do not.
            .sleep = [](milliseconds pause) { std::this_thread::sleep_for(pause / 5); }};
  }

  void start() {
    for (int i = 0; i < kSavers; ++i) {
      threads_.emplace_back([this, i] { repeat(i, [this](auto& random) { save(random); }); });
    }
    for (int i = 0; i < kLoaders; ++i) {
      threads_.emplace_back(
          [this, i] { repeat(100 + i, [this](auto& random) { load_one(random); }); });
    }
    threads_.emplace_back([this] { repeat(200, [this](auto&) { sweep(); }); });
  }
  void stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // No turn begins while the test looks at what nobody is to change.
  void repeat(int seed, const std::function<void(std::mt19937&)>& turn) {
    std::mt19937 random(static_cast<unsigned>(seed));
    while (!stopped_) {
      ++busy_;
      if (!paused_) turn(random);
      --busy_;
      std::this_thread::sleep_for(milliseconds(random() % 20));
    }
  }

  void save(std::mt19937& random) {
    const auto grant = operator_.grant(static_cast<int>(random() % kArchives));
    write_and_commit(grant, random);
    operator_.is_over(grant);
    if (random() % 20 == 0) operator_.forget(static_cast<int>(random() % kArchives));
  }
  void write_and_commit(const Operator::Grant& grant, std::mt19937& random) {
    Tree tree = grant.tree, mine;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      const unsigned path = random() % kPaths;
      mine["f" + std::to_string(path)] = {
          archive::test::noise(20'000, path * kContents + random() % kContents), false};
    }
    for (const auto& [path, content] : mine) tree[path] = content;
    archive::test::TempDir source(temp_.path());
    archive::test::write_tree(source.path(), mine);
    archive::WriteRequest request;
    request.parent = grant.parent;
    request.settings.compression_level = 1;
    request.settings.threads = 1;
    request.annotations = {{"dev.compilecache.generation", std::to_string(grant.save.fence)}};
    for (const auto& [path, content] : mine) {
      request.files.push_back({source.path(path), "torch/" + path});
    }
    RegistryStore store(options());
    const auto written = archive::write_archive(store, request);
    if (!written) return may_fail(written.error(), grant.parent, "a save");
    if (written->nothing_new) return;
    ++(operator_.commit(grant, written->archive, std::move(tree)) ? committed_ : refused_);
  }
  // The registry may be away. It may have lost what nothing names any more; never a wrong byte.
  void may_fail(const Error& error, const std::string& manifest, const std::string& what) {
    ++failed_;
    if (error.code == ErrorCode::kCorrupt) return wrong(what + ": " + error.message);
    if (error.code == ErrorCode::kNotFound) {
      ++gone_;
      if (error.digest.empty()) wrong(what + " does not say what is missing: " + error.message);
      // A blob that is needed now was needed all the time, unless its like was committed since.
      if (operator_.needs(manifest)) wrong(what + " of what a head names: " + error.message);
    }
  }

  void load_one(std::mt19937& random) {
    const std::string head = operator_.head(static_cast<int>(random() % kArchives));
    if (head.empty()) return;
    RegistryStore store(options());
    const auto loaded = load(store, head);
    if (!loaded) return may_fail(loaded.error(), head, "a load");
    if (*loaded != operator_.tree(head)) wrong("a load of other files than were saved");
    ++loaded_;
  }
  [[nodiscard]] Result<Tree> load(Store& store, const std::string& manifest) const {
    const archive::test::TempDir into(temp_.path());
    archive::ExtractOptions options;
    options.roots = {{"torch", into.path("torch")}};
    options.threads = 1;
    auto loaded = archive::extract(store, manifest, options);
    if (!loaded) return unexpected(loaded.error());
    return archive::test::read_tree(into.path("torch"));
  }

  // A Job that is cut off by a roll reports nothing.
  void sweep() {
    RegistryStore store(options());
    const auto list = operator_.begin_sweep();
    const auto removed = store.upkeep()->remove(list);
    if (!removed) return;
    swept_ += static_cast<int>(removed->removed);
    if (!removed->failures.empty()) return;
    const auto blobs = store.upkeep()->list();
    if (!blobs) return;
    operator_.end_sweep(*blobs);
    ++sweeps_;
  }

  void roll(bool killed) {
    killed ? registry_->kill() : registry_->end();
    const std::string said = registry_->collect();
    EXPECT_NE(said.find("collected"), std::string::npos) << said;
    registry_->start_again();
    ASSERT_EQ(registry_->problem(), "");
  }
  // While nobody changes anything.
  void expect_all_loads(const std::string& when) {
    paused_ = true;
    while (busy_ > 0) std::this_thread::sleep_for(milliseconds(1));
    RegistryStore store(options());
    for (const std::string& manifest : operator_.current()) {
      const auto loaded = load(store, manifest);
      ASSERT_TRUE(loaded) << when << ": " << loaded.error().message;
      EXPECT_EQ(*loaded, operator_.tree(manifest)) << when;
    }
    paused_ = false;
  }

  void wrong(const std::string& what) {
    const MutexLock lock(wrong_mutex_);
    wrong_.push_back(what);
  }

  archive::test::TempDir temp_;
  std::unique_ptr<RegistryProcess> registry_;
  Operator operator_;
  std::atomic<bool> stopped_ = false, paused_ = false;
  std::atomic<int> busy_ = 0;
  std::vector<std::thread> threads_;
  std::atomic<int> committed_ = 0, refused_ = 0, failed_ = 0, gone_ = 0, loaded_ = 0, sweeps_ = 0,
                   swept_ = 0;
  Mutex wrong_mutex_;
  std::vector<std::string> wrong_ GUARDED_BY(wrong_mutex_);
};

TEST_F(RolledRegistry, NoHeadEverNamesAMissingBlob) {
  start();
  for (int round = 1; round <= rounds(); ++round) {
    std::this_thread::sleep_for(kRound);
    roll(round % 2 == 0);
    expect_all_loads("after roll " + std::to_string(round));
    if (HasFatalFailure()) break;
  }
  stop();
  {
    const MutexLock lock(wrong_mutex_);
    for (const std::string& what : wrong_) ADD_FAILURE() << what;
  }
  std::cout << "saves: " << committed_ << " committed, " << refused_
            << " refused; loads: " << loaded_ << "; failed: " << failed_ << ", " << gone_
            << " of them on deleted blobs; archives deleted: " << swept_ << " by " << sweeps_
            << " sweeps\n";
  EXPECT_GT(committed_, 0);
  EXPECT_GT(loaded_, 0);

  // At rest two sweeps and a collection leave just what is named.
  sweep();
  std::this_thread::sleep_for(2 * kGrace);
  sweep();
  roll(false);
  expect_all_loads("at the end");
  RegistryStore store(options());
  std::set<std::string> left;
  const auto blobs = store.upkeep()->list();
  ASSERT_TRUE(blobs) << blobs.error().message;
  for (const StoredBlob& blob : *blobs) left.insert(blob.digest);
  EXPECT_EQ(left, operator_.referenced());
}

}  // namespace
}  // namespace compilecache::store::test
