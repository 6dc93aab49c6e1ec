// The real services of the agent API with simulated clocks, each replica's minutes off, against
// many savers, crashes, pauses, lost requests and replies. Leaders change and deposed ones go on
// for a while, archives are deleted, bytes of blobs flip, and sweeps run. After each step:
//   fences only grow, and a commit carries the fence of the lock that it ends
//   no committed key is lost from an archive, while the archive lives and its head is trusted
//   a head that is distrusted is not extended, and one that is not is not replaced
//   no head names a blob that is not on the volume
// and when the faults stop, everybody's work gets saved, and no loader is given a flipped byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "api/names.hpp"
#include "base/log.hpp"
#include "base/sha256.hpp"
#include "operator/agents/agent_services.hpp"
#include "operator/archives/archive_trust.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "tests/unit/operator/fake_archives.hpp"

namespace compilecache::controller {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using test::FakeArchives;

constexpr char kCache[] = "ml/cache";
constexpr milliseconds kGrace = minutes(3);

std::string digest_of(const std::string& text) { return "sha256:" + sha256_hex(text); }

struct NoEvents : kube::EventSink {
  void record(const kube::EventRecord&) override {}
};

// The API server's word about a token: tokens are the names of pods, which run on the node that
// their name ends with.
Result<nlohmann::json> review_token(const nlohmann::json& review) {
  const std::string pod = review["spec"]["token"];
  return nlohmann::json{
      {"status",
       {{"authenticated", true},
        {"audiences", {api::kTokenAudience}},
        {"user",
         {{"username", "system:serviceaccount:ml:default"},
          {"extra",
           {{"authentication.kubernetes.io/pod-name", {pod}},
            {"authentication.kubernetes.io/pod-uid", {"uid-" + pod}},
            {"authentication.kubernetes.io/node-name", {pod.substr(pod.rfind('-') + 1)}}}}}}}}};
}

// The clock of one machine; those of two have only their pace in common.
class MachineClock : public Clock {
 public:
  MachineClock(const Clock& world, Duration ahead) : world_(world), ahead_(ahead) {}
  [[nodiscard]] Monotonic monotonic() const override { return world_.monotonic() + 5 * ahead_; }
  [[nodiscard]] WallTime wall() const override { return world_.wall() + ahead_; }

 private:
  const Clock& world_;
  const Duration ahead_;
};

// A replica that leads or has led, with all that answers agents.
struct Leader {
  Leader(FakeArchives& archives, const ClusterView& view, const Settings& settings,
         const Clock& world, Duration ahead, uint64_t seed)
      : clock(world, ahead),
        auth(review_token, seconds(60), clock),
        saves(archives, locks, guard, 3, clock, seeded_random(seed)),
        registry(archives, seconds(5), clock),
        traffic(50, clock),
        services({view, auth, saves, locks, guard, archives, registry, traffic, crashes, stats,
                  pods, metrics, events},
                 settings, {}, clock) {
    for (const auto& cache : view.caches()) stats.seed(cache->metadata.key(), cache->status);
    services.take_over();
  }
  const MachineClock clock;
  TokenAuth auth;
  CacheLocks locks;
  SweepGuard guard;
  SaveCoordinator saves;
  ArchiveRegistry registry;
  LoadTraffic traffic;
  PodLedger pods;
  CrashWatch crashes{pods};
  CacheStats stats{32, pods};
  Metrics metrics;
  NoEvents events;
  AgentServices services;
};

struct Saver {
  std::string pod;
  std::set<std::string> compiled;  // keys, to be saved
  std::optional<api::SaveAnswer> save;
  std::optional<api::CommitRequest> written;
  Monotonic paused_until{};
  int attempts = 0;
};

// Goes on under the next leader, and reports to the leader of that time.
struct Job {
  std::vector<std::string> deletable;
  std::vector<std::string> check{};
  size_t deleted = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seeded_random(seed)) {
    settings_.sweep.grace = kGrace;
    cache_.metadata.ns = "ml";
    cache_.metadata.name = "cache";
    cache_.metadata.uid = "cache-uid";
    cache_.spec.storage = {.claim_name = "claim"};
    cache_.status.conditions = {{.type = api::kStorageReadyCondition, .status = "True"}};
    cache_.status.sweep_job = "j";
    put_cache();
    for (const char* product : {"H100", "A100"}) {
      auto node = std::make_shared<NodeView>();
      node->name = product;
      node->facts = {product, "amd64", "", ""};
      stores_.nodes.upsert(product, node);
    }
    for (int i = 0; i < 6; ++i) savers_.push_back(make_saver(i));
    auto job = make_pod("job-H100");
    job->sweep = "cache";
    job->owner = std::make_shared<const OwnerView>(OwnerView{"batch/v1", "Job", "sweep", "j"});
    stores_.sweep_pods.upsert("ml/job-H100", job);
    archives_.fault = [this] { return fault(); };
    archives_.on_write = [this](const auto& before, const auto& after) {
      check_write(before, after);
      stores_.archives.upsert(after.metadata.key(),
                              std::make_shared<api::CompileCacheArchive>(after));
    };
    elect();
  }

  void step() {
    clock_.advance(below(20) == 0 ? seconds(below(600)) : milliseconds(below(8'000)));
    // A deposed leader stops by itself within its lease.
    if (deposed_ && clock_.monotonic() > deposed_until_) deposed_.reset();
    switch (below(faulty_ ? 15 : 10)) {
      case 0:
        sweep();
        break;
      case 1:
        load();
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
      case 14:
        if (below(4) == 0) flip_a_byte();
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
  [[nodiscard]] bool all_is_well() const {
    const bool saved = std::all_of(savers_.begin(), savers_.end(),
                                   [](const Saver& saver) { return saver.compiled.empty(); });
    return saved && std::none_of(archives_.archives.begin(), archives_.archives.end(),
                                 [&](const auto& archive) { return is_damaged(archive.second); });
  }
  [[nodiscard]] int commits() const { return commits_; }
  [[nodiscard]] int swept() const { return swept_; }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  Saver& pick() { return savers_[below(savers_.size())]; }

  static std::shared_ptr<PodView> make_pod(const std::string& name) {
    auto pod = std::make_shared<PodView>();
    pod->ns = "ml";
    pod->name = name;
    pod->uid = "uid-" + name;
    pod->node = name.substr(name.rfind('-') + 1);
    pod->phase = "Running";
    return pod;
  }
  Saver make_saver(int number) {
    Saver saver;
    saver.pod = "pod-" + std::to_string(number) + (number % 2 == 0 ? "-H100" : "-A100");
    auto pod = make_pod(saver.pod);
    pod->cache = "cache";
    auto injection = std::make_shared<api::InjectionStatus>();
    injection->mode = api::Mode::kReadWrite;
    injection->key_basis = {
        .parts = {"GPUProduct"}, .gpu_resource = "nvidia.com/gpu", .gpu_count = 1};
    pod->injection = std::move(injection);
    stores_.pods.upsert("ml/" + saver.pod, pod);
    compile(saver);
    return saver;
  }
  void put_cache() { stores_.caches.upsert(kCache, std::make_shared<api::CompileCache>(cache_)); }
  // The status writer of the leader, whose resourceVersion is the last.
  void write_status() {
    leader_->stats.fill(kCache, cache_.status);
    put_cache();
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
    const Duration ahead = minutes(below(21)) - minutes(10);
    auto next = std::make_unique<Leader>(archives_, view_, settings_, clock_, ahead, random_());
    deposed_ = std::move(leader_);
    deposed_until_ = clock_.monotonic() + seconds(15);
    leader_ = std::move(next);
  }

  void flip_a_byte() {
    if (volume_.empty()) return;
    auto victim = volume_.begin();
    std::advance(victim, below(volume_.size()));
    flipped_.insert(*victim);
  }
  // The archive that would be handed out has a flipped byte.
  [[nodiscard]] bool is_damaged(const api::CompileCacheArchive& archive) const {
    const api::ArchiveHead* head = usable_head(archive);
    return head != nullptr && is_distrusted(*head, flipped_);
  }
  // A loader reports what it finds corrupt, or rarely what only its node finds so.
  void load() {
    if (archives_.archives.empty()) return;
    auto which = archives_.archives.begin();
    std::advance(which, below(archives_.archives.size()));
    const api::CompileCacheArchive archive = which->second;
    const api::ArchiveHead* head = usable_head(archive);
    if (head == nullptr) return;
    std::string bad;
    for (const std::string& blob : head->blobs) {
      if (flipped_.contains(blob)) bad = blob;
    }
    if (bad.empty() && faulty_ && below(6) == 0) bad = head->blobs.front();
    if (bad.empty()) return;
    busy_ = leader_.get();
    (void)leader_->services.loads.loaded(caller(*leader_, pick().pod),
                                         {.cache = "cache",
                                          .outcome = api::Outcome::kError,
                                          .reason = "corrupt",
                                          .archive = archive.metadata.name,
                                          .manifest_digest = head->manifest_digest,
                                          .corrupt_digest = bad});
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
    stores_.archives.erase(victim->first, stores_.archives.get(victim->first));
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
      const Status renewed = leader->services.saves.renew(caller(*leader, saver.pod),
                                                          saver.save->id, {saver.save->fence});
      if (!renewed && renewed.error().code == ErrorCode::kConflict) crash(saver);
    } else {
      commit(saver, *leader);
    }
  }

  static Caller caller(Leader& leader, const std::string& pod) {
    return leader.services.callers.identify(pod, "").value();
  }

  void ask(Saver& saver, Leader& leader) {
    const auto answer = leader.services.saves.request(
        caller(leader, saver.pod), {.attempt = std::to_string(++saver.attempts), .new_files = 1});
    if (answer && answer->decision == api::SaveDecision::kGranted) saver.save = *answer;
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
      (void)leader.services.saves.release(caller(leader, saver.pod), saver.save->id);
      saver.compiled.clear();
      return crash(saver);
    }
    for (const std::string& key : keys) request.blobs.push_back(digest_of("blob " + key));
    request.blobs.push_back(request.manifest_digest);
    volume_.insert(request.blobs.begin(), request.blobs.end());  // those that are not there
    // Its own bytes are written where the volume has others.
    for (const std::string& key : saver.compiled) flipped_.erase(digest_of("blob " + key));
    flipped_.erase(request.manifest_digest);
    manifests_[request.manifest_digest] = keys;
    saver.written = std::move(request);
  }

  void commit(Saver& saver, Leader& leader) {
    const std::string outer = std::exchange(parent_, saver.written->parent_digest);
    const auto done =
        leader.services.saves.commit(caller(leader, saver.pod), saver.save->id, *saver.written);
    parent_ = outer;
    if (done) {
      saver.compiled.clear();
      crash(saver);
    } else if (done.error().code == ErrorCode::kConflict) {
      (void)leader.services.saves.release(caller(leader, saver.pod), saver.save->id);
      crash(saver);
      // It comes back later, as agents do.
      saver.paused_until = clock_.monotonic() + seconds(60);
    }
  }

  // One Job at a time, in small steps; the leader writes the status a while after it has changed
  // it.
  void sweep() {
    busy_ = leader_.get();
    if (below(2) == 0) write_status();
    if (job_ && faulty_ && below(20) == 0) return job_.reset();  // it dies
    if (!job_) {
      const auto answer = tell({.phase = api::SweepPhase::kBegin});
      if (answer) job_ = Job{answer->deletable, answer->check};
    } else if (job_->deleted < job_->deletable.size()) {
      flipped_.erase(job_->deletable[job_->deleted]);
      swept_ += static_cast<int>(volume_.erase(job_->deletable[job_->deleted++]));
    } else {
      api::SweepRequest report{.phase = api::SweepPhase::kEnd};
      report.inventory.emplace();
      for (const std::string& digest : volume_) report.inventory->blobs.push_back({digest, 1});
      for (const std::string& manifest : job_->check) {
        (is_whole(manifest) ? report.verified : report.corrupt).push_back(manifest);
      }
      if (tell(report)) job_.reset();
    }
  }
  [[nodiscard]] bool is_whole(const std::string& manifest) const {
    if (flipped_.contains(manifest)) return false;
    const std::set<std::string>& keys = manifests_.at(manifest);
    return std::none_of(keys.begin(), keys.end(), [&](const std::string& key) {
      return flipped_.contains(digest_of("blob " + key));
    });
  }
  Result<api::SweepAnswer> tell(api::SweepRequest request) {
    request.cache = "cache";
    return leader_->services.sweeps.sweep(caller(*leader_, "job-H100"), request);
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
    std::set<std::string>& committed = committed_[after.metadata.uid];
    const bool thrown_away = after.lock == before.lock;
    if (thrown_away) {
      ASSERT_TRUE(is_corrupt(after));
      ASSERT_EQ(after.head, before.previous);
      committed =
          after.head.exists() ? manifests_.at(after.head.manifest_digest) : std::set<std::string>();
      return;
    }
    ++commits_;
    ASSERT_FALSE(before.lock.holder.empty()) << "a commit without the lock";
    ASSERT_EQ(after.lock.fence, before.lock.fence);
    int64_t& last = last_fence_[after.metadata.uid];
    ASSERT_GT(after.lock.fence, last) << "two commits with one fence";
    last = after.lock.fence;
    const std::set<std::string>& now = manifests_.at(after.head.manifest_digest);
    const bool distrusted = is_distrusted(before.head, distrusted_digests(before));
    if (before.head.exists() && !distrusted) {
      ASSERT_EQ(after.previous.manifest_digest, before.head.manifest_digest);
      ASSERT_TRUE(std::includes(now.begin(), now.end(), committed.begin(), committed.end()))
          << "a committed key is lost";
    } else {
      ASSERT_TRUE(parent_.empty()) << "what is distrusted was extended";
    }
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
  Settings settings_;
  ClusterStores stores_;
  const ClusterView view_{stores_};
  api::CompileCache cache_;  // with its status, as the API server has it
  std::unique_ptr<Leader> leader_, deposed_;
  Monotonic deposed_until_{};
  std::vector<Saver> savers_;
  std::set<std::string> volume_;
  std::set<std::string> flipped_;                           // blobs that are not what they were
  std::map<std::string, std::set<std::string>> manifests_;  // digest: keys
  std::optional<Job> job_;
  bool faulty_ = true, nested_ = false;
  std::string parent_;                                      // of the commit that is under way
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
      if (::testing::Test::HasFatalFailure()) return;
    }
    simulation.stop_faults();
    for (int i = 0; i < 5'000 && !simulation.all_is_well(); ++i) simulation.step();
    if (::testing::Test::HasFatalFailure()) return;
    ASSERT_TRUE(simulation.all_is_well()) << "no progress after the faults have stopped";
    progress.commits += simulation.commits();
    progress.swept += simulation.swept();
  }
}

// A hundred thousand grants are not logged.
class SaveSimulation : public ::testing::Test {
 protected:
  SaveSimulation() { log_init(LogFormat::kText, LogLevel::kError); }
  ~SaveSimulation() override { log_init(LogFormat::kText, LogLevel::kInfo); }
};

// Many short histories, and a few long ones in which much is swept. More of them:
// SAVE_SIMULATION_RUNS=100000.
TEST_F(SaveSimulation, NothingIsLostWhateverHappens) {
  const char* wanted = std::getenv("SAVE_SIMULATION_RUNS");
  const uint64_t runs = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 1'000;
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
