// Many savers, crashes, pauses, lost requests and replies, changes of leader, deposed leaders that
// go on for a while, archives that are deleted, and sweeps, against the real coordination and
// ledger with a simulated clock. After each step:
//   fences only grow, and a commit carries the fence of the lock that it ends
//   no committed key is lost from an archive, while the archive lives
//   no head names a blob that is not on the volume
// and when the faults stop, everybody's work gets saved.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "base/sha256.hpp"
#include "operator/save_coordinator.hpp"
#include "operator/sweep_ledger.hpp"
#include "tests/unit/operator/fake_archives.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeArchives;

constexpr char kCache[] = "ml/cache";
constexpr milliseconds kGrace = minutes(10);

std::string digest_of(const std::string& text) { return "sha256:" + sha256_hex(text); }

// A replica that leads or has led.
struct Leader {
  Leader(FakeArchives& archives, const Clock& clock, uint64_t seed,
         std::vector<api::CondemnedBlob> from_status)
      : since(clock.monotonic()),
        listed(std::move(from_status)),
        saves(archives, locks, guard, 3, clock, seeded_random(seed)) {
    std::vector<std::string> digests;
    for (const api::CondemnedBlob& blob : listed) digests.push_back(blob.digest);
    guard.take_over(kCache, digests);
  }
  Monotonic since;
  std::vector<api::CondemnedBlob> listed;
  CacheLocks locks;
  SweepGuard guard;
  SaveCoordinator saves;
};

struct Saver {
  SaveContext context;
  std::set<std::string> compiled;  // keys, to be saved
  std::optional<api::SaveAnswer> save;
  std::optional<api::CommitRequest> written;
  Monotonic paused_until{};
  int attempts = 0;
};

struct Job {
  std::vector<std::string> deletable;
  size_t deleted = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seeded_random(seed)) {
    for (int i = 0; i < 6; ++i) savers_.push_back(make_saver(i));
    archives_.fault = [this] { return fault(); };
    archives_.on_write = [this](const auto& before, const auto& after) {
      check_write(before, after);
    };
    elect();
  }

  void step() {
    clock_.advance(below(20) == 0 ? seconds(below(600)) : milliseconds(below(8'000)));
    // A deposed leader stops by itself within its lease.
    if (deposed_ && clock_.monotonic() > deposed_until_) deposed_.reset();
    switch (below(faulty_ ? 14 : 10)) {
      case 0:
        sweep();
        break;
      case 10:
        elect();
        break;
      case 11:
        crash(pick());
        break;
      case 12:
        pick().paused_until = clock_.monotonic() + seconds(below(1'500));
        break;
      case 13:
        if (below(4) == 0) delete_an_archive();
        break;
      default:
        act(pick());
    }
    check_blobs();
  }

  void stop_faults() {
    faulty_ = false;
    deposed_.reset();
    for (Saver& saver : savers_) saver.paused_until = {};
  }
  [[nodiscard]] bool all_saved() const {
    return std::all_of(savers_.begin(), savers_.end(),
                       [](const Saver& saver) { return saver.compiled.empty(); });
  }
  [[nodiscard]] int commits() const { return commits_; }
  [[nodiscard]] int swept() const { return swept_; }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  Saver& pick() { return savers_[below(savers_.size())]; }

  Saver make_saver(int number) {
    Saver saver;
    SaveContext& context = saver.context;
    context.ns = "ml";
    context.pod = "pod-" + std::to_string(number);
    context.pod_uid = "uid-" + std::to_string(number);
    context.cache = "cache";
    context.cache_uid = "cache-uid";
    context.claim_name = "claim";
    context.key = {{"GPUProduct", number % 2 == 0 ? "H100" : "A100"}};
    compile(saver);
    return saver;
  }
  // From a small pool, so that pods of different archives make the same blobs.
  void compile(Saver& saver) {
    for (uint64_t i = 0; i <= below(3); ++i) {
      saver.compiled.insert("key-" + std::to_string(below(60)));
    }
  }

  FakeArchives::Fault fault() {
    if (!faulty_) return FakeArchives::Fault::kNone;
    // Another client, or the leader that was deposed, is faster.
    if (deposed_ && !nested_ && busy_ != deposed_.get() && below(4) == 0) {
      nested_ = true;
      Saver& other = pick();
      if (&other != acting_) act(other, deposed_.get());
      nested_ = false;
    }
    switch (below(12)) {
      case 0:
        return FakeArchives::Fault::kLostRequest;
      case 1:
        return FakeArchives::Fault::kLostReply;
      default:
        return FakeArchives::Fault::kNone;
    }
  }

  void elect() {
    auto next = std::make_unique<Leader>(archives_, clock_, random_(), status_);
    for (const auto& [key, archive] : archives_.archives)
      next->saves.take_over(archive, seconds(30));
    deposed_ = std::move(leader_);
    deposed_until_ = clock_.monotonic() + seconds(15);
    leader_ = std::move(next);
    job_.reset();  // its report would not reach us; what it may delete stays condemned
  }

  static void crash(Saver& saver) {
    saver.save.reset();
    saver.written.reset();
  }

  void delete_an_archive() {
    if (archives_.archives.empty()) return;
    auto victim = archives_.archives.begin();
    std::advance(victim, below(archives_.archives.size()));
    committed_.erase(victim->second.metadata.uid);
    archives_.archives.erase(victim);
  }

  void act(Saver& saver, Leader* leader = nullptr) {
    if (clock_.monotonic() < saver.paused_until) return;
    if (!nested_) acting_ = &saver;
    if (leader == nullptr) leader = deposed_ && below(6) == 0 ? deposed_.get() : leader_.get();
    if (!nested_) busy_ = leader;
    if (saver.compiled.empty()) {
      if (faulty_) compile(saver);
    } else if (!saver.save) {
      ask(saver, *leader);
    } else if (!saver.written) {
      write(saver, *leader);
    } else if (below(3) == 0) {
      const Status renewed = leader->saves.renew("ml", saver.context.pod_uid, saver.save->id,
                                                 saver.save->fence, seconds(30));
      if (!renewed && renewed.error().code == ErrorCode::kConflict) crash(saver);
    } else {
      commit(saver, *leader);
    }
  }

  void ask(Saver& saver, Leader& leader) {
    const auto answer = leader.saves.request(
        saver.context, {.attempt = std::to_string(++saver.attempts), .new_files = 1});
    if (answer && answer->decision == "granted") saver.save = *answer;
  }

  // Writes the blobs that are missing, as the archive writer does.
  void write(Saver& saver, Leader& leader) {
    std::set<std::string> keys = saver.compiled;
    if (!saver.save->parent_digest.empty()) {
      const auto& parent = manifests_.at(saver.save->parent_digest);
      keys.insert(parent.begin(), parent.end());
    }
    std::string text;
    for (const std::string& key : keys) text += key + "\n";
    api::CommitRequest request{.fence = saver.save->fence,
                               .parent_digest = saver.save->parent_digest,
                               .manifest_digest = digest_of(text)};
    if (request.manifest_digest == request.parent_digest) {  // somebody saved it all
      leader.saves.release("ml", "cache", saver.context.pod_uid, saver.save->id);
      saver.compiled.clear();
      return crash(saver);
    }
    for (const std::string& key : keys) request.blobs.push_back(digest_of("blob " + key));
    request.blobs.push_back(request.manifest_digest);
    volume_.insert(request.blobs.begin(), request.blobs.end());  // those that are not there
    manifests_[request.manifest_digest] = keys;
    saver.written = std::move(request);
  }

  void commit(Saver& saver, Leader& leader) {
    const auto done = leader.saves.commit(saver.context, saver.save->id, *saver.written);
    if (done) {
      saver.compiled.clear();
      crash(saver);
    } else if (done.error().code == ErrorCode::kConflict) {
      leader.saves.release("ml", "cache", saver.context.pod_uid, saver.save->id);
      crash(saver);
      // It comes back later, as agents do.
      saver.paused_until = clock_.monotonic() + seconds(60);
    }
  }

  // One Job at a time, in small steps; its leader persists the list a while after it has changed
  // it.
  void sweep() {
    busy_ = leader_.get();
    if (below(2) == 0) status_ = leader_->listed;
    if (!job_) {
      const auto guard = leader_->locks.lock(kCache);
      std::vector<api::CondemnedBlob> both = leader_->listed;
      std::erase_if(both, [&](const auto& blob) {
        return std::find(status_.begin(), status_.end(), blob) == status_.end();
      });
      const auto saves = in_flight();
      if (!saves) return;
      Job job;
      if (clock_.monotonic() - leader_->since >= seconds(60)) {
        job.deletable = deletable_digests(both, referenced(), clock_.wall(), kGrace);
      }
      leader_->guard.begins(kCache, job.deletable, *saves);
      job_ = std::move(job);
    } else if (job_->deleted < job_->deletable.size()) {
      swept_ += static_cast<int>(volume_.erase(job_->deletable[job_->deleted++]));
    } else {
      end_sweep();
    }
  }

  std::optional<std::vector<SaveInFlight>> in_flight() {
    std::vector<SaveInFlight> saves;
    const auto archives = archives_.list("ml", "cache").value();
    for (const auto& archive : archives) {
      const auto locked = leader_->saves.break_expired(archive, seconds(30));
      if (!locked) return std::nullopt;
      if (*locked) saves.push_back({archive.metadata.name, archive.lock.fence});
    }
    return saves;
  }

  void end_sweep() {
    const auto guard = leader_->locks.lock(kCache);
    const auto saves = in_flight();
    if (!saves) return;
    LedgerFacts facts;
    facts.handed = leader_->guard.ends(kCache, *saves);
    facts.saves_in_flight = !saves->empty();
    facts.inventory.assign(volume_.begin(), volume_.end());
    facts.referenced = referenced();
    facts.listed = leader_->listed;
    facts.now = clock_.wall();
    leader_->listed = condemn(facts);
    job_.reset();
  }

  std::set<std::string> referenced() {
    return referenced_digests(archives_.list("ml", "cache").value());
  }

  void check_write(const api::CompileCacheArchive& before, const api::CompileCacheArchive& after) {
    ASSERT_GE(after.lock.fence, before.lock.fence);
    if (after.lock.holder != before.lock.holder && !after.lock.holder.empty()) {
      ASSERT_GT(after.lock.fence, before.lock.fence) << "a new holder needs a new fence";
    }
    if (after.head == before.head) return;
    ++commits_;
    ASSERT_FALSE(before.lock.holder.empty()) << "a commit without the lock";
    ASSERT_EQ(after.lock.fence, before.lock.fence);
    int64_t& last = last_fence_[after.metadata.uid];
    ASSERT_GT(after.lock.fence, last) << "two commits with one fence";
    last = after.lock.fence;
    ASSERT_EQ(after.previous.manifest_digest, before.head.manifest_digest);
    std::set<std::string>& committed = committed_[after.metadata.uid];
    const std::set<std::string>& now = manifests_.at(after.head.manifest_digest);
    ASSERT_TRUE(std::includes(now.begin(), now.end(), committed.begin(), committed.end()))
        << "a committed key is lost";
    committed = now;
  }

  void check_blobs() {
    for (const std::string& digest : referenced()) {
      ASSERT_TRUE(volume_.contains(digest)) << "a head names a swept blob";
    }
  }

  Random random_;
  FakeClock clock_;
  FakeArchives archives_;
  std::unique_ptr<Leader> leader_, deposed_;
  Monotonic deposed_until_{};
  std::vector<Saver> savers_;
  std::set<std::string> volume_;
  std::map<std::string, std::set<std::string>> manifests_;  // digest: keys
  std::vector<api::CondemnedBlob> status_;                  // as the API server has it
  std::optional<Job> job_;
  bool faulty_ = true, nested_ = false;
  const Saver* acting_ = nullptr;                           // in the middle of a call
  const Leader* busy_ = nullptr;                            // with that call
  std::map<std::string, int64_t> last_fence_;               // by archive uid
  std::map<std::string, std::set<std::string>> committed_;  // by archive uid: keys
  int commits_ = 0, swept_ = 0;
};

// From seed `first`, `runs` histories of `steps` steps with faults, then without until all is
// saved.
struct Progress {
  int commits = 0, swept = 0;
};
void simulate(uint64_t first, uint64_t runs, int steps, Progress& progress) {
  for (uint64_t seed = first; seed < first + runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(seed);
    for (int i = 0; i < steps; ++i) {
      simulation.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    simulation.stop_faults();
    for (int i = 0; i < 5'000 && !simulation.all_saved(); ++i) simulation.step();
    if (testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(simulation.all_saved()) << "no progress after the faults have stopped";
    progress.commits += simulation.commits();
    progress.swept += simulation.swept();
  }
}

// Many short histories, and a few long ones in which much is swept. More of them:
// SAVE_SIMULATION_RUNS=100000.
TEST(SaveSimulation, NothingIsLostWhateverHappens) {
  log_init(LogFormat::kText, LogLevel::kError);  // a hundred thousand grants
  const char* wanted = std::getenv("SAVE_SIMULATION_RUNS");
  const uint64_t runs = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 2'000;
  Progress progress;
  simulate(1, 10, 1'500, progress);
  if (HasFatalFailure()) return;
  simulate(1'000, runs, 100, progress);
  if (HasFatalFailure()) return;
  // It gets somewhere.
  EXPECT_GT(progress.commits, 300);
  EXPECT_GT(progress.swept, 200);
  RecordProperty("commits", progress.commits);
  RecordProperty("swept", progress.swept);
  std::cout << runs << " runs: " << progress.commits << " commits, " << progress.swept
            << " blobs swept\n";
}

}  // namespace
}  // namespace compilecache::controller
