#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <set>
#include <thread>

#include "archive/fs.hpp"
#include "crowd.hpp"
#include "store/index.hpp"
#include "store/upkeep.hpp"

// 64 processes save, load, check and sweep one store at once, while one after the other is killed.
// Every load gets exactly the committed files, and no blob that a head reaches is ever missing.
// After a last sweep nothing is left over. CC_CROWD_SECONDS=300 for minutes, by hand.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kProcesses = 64;
// Shorter than a load may take here, so that some loads lose their archive to a sweep.
constexpr double kGraceSeconds = 1.5;
constexpr auto kIncompleteAge = std::chrono::seconds(60);

[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Place {
  std::string store, work, notes;
  Clock::time_point end;
};

// The work of one process, until the time is over or something forbidden happens.
class Actor {
 public:
  Actor(const Place& place, CrowdLedger& ledger, uint64_t seed)
      : place_(place),
        ledger_(ledger),
        random_(seed),
        here_(place.work + "/" + std::to_string(::getpid())),
        notes_(::open(place.notes.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC)) {}

  void run() {
    while (Clock::now() < place_.end) {
      const unsigned dice = random_() % 100;
      const int archive = static_cast<int>(random_() % kCrowdArchives);
      if (dice < 45) {
        load(archive);
      } else if (dice < 70) {
        save_in_turn(archive);
      } else if (dice < 80) {
        save(archive);  // without the lock, as if it were lost or granted twice
      } else if (dice < 90) {
        check(archive);
      } else if (dice < 96) {
        look_at_index();
      } else {
        sweep();
      }
      fs::remove_all(here_);
    }
  }

 private:
  void note(char what) const {
    if (::write(notes_.get(), &what, 1) != 1) ::_exit(1);
  }
  [[noreturn]] void wrong(const std::string& what) const {
    write_file(place_.work + "/wrong-" + std::to_string(::getpid()), what);
    ::_exit(1);
  }
  // It is no fault if the archive was swept in the meantime; every other error is one.
  void gone_or_wrong(int archive, const CrowdHead& head, const Error& error) {
    if (error.code != ErrorCode::kNotFound || !ledger_.may_be_gone(archive, head.manifest))
      wrong(std::string(to_string(error.code)) + ": " + error.message);
    note('g');
  }

  void load(int archive) {
    const CrowdHead head = ledger_.head(archive);
    if (head.manifest.empty()) return;
    ExtractOptions options;
    options.roots = {{"torch", here_}};
    const auto loaded = extract(store::DirectoryStore(place_.store), head.manifest, options);
    if (!loaded) {
      if (fs::exists(here_)) wrong("a failed load left something");
      return gone_or_wrong(archive, head, loaded.error());
    }
    if (read_tree(here_) != head.tree()) wrong("a torn read of " + head.manifest);
    note('l');
  }

  void check(int archive) {
    const CrowdHead head = ledger_.head(archive);
    if (head.manifest.empty()) return;
    if (const auto good = verify(store::DirectoryStore(place_.store), head.manifest); !good)
      return gone_or_wrong(archive, head, good.error());
    note('c');
  }

  void save_in_turn(int archive) {
    if (!ledger_.take_save_lock(archive)) return;
    save(archive);
    ledger_.leave_save_lock(archive);
  }

  void save(int archive) {
    const CrowdHead head = ledger_.head(archive);
    CrowdHead next = head;
    Tree changed;
    for (unsigned i = 0; i <= random_() % 3; ++i) {
      const int slot = static_cast<int>(random_() % kCrowdSlots);
      next.versions[slot] = head.versions[slot] + 1;
      changed[crowd_path(slot)] = crowd_content(slot, next.versions[slot]);
    }
    write_tree(here_, changed);
    WriteRequest request;
    request.parent = head.manifest;
    request.settings.compression_level = 1;
    request.settings.frame_bytes = 64 << 10;
    for (const auto& [path, file] : changed)
      request.files.push_back({here_ + "/" + path, "torch/" + path});
    const auto written = write_into(place_.store, request);
    if (!written) return gone_or_wrong(archive, head, written.error());
    if (written->nothing_new || !written->left_out.empty()) wrong("a save without what is new");
    next.manifest = written->archive.manifest;
    next.manifest_bytes = written->archive.manifest_bytes;
    next.blobs = written->archive.blobs();
    commit(archive, head, next);
  }

  void commit(int archive, const CrowdHead& head, const CrowdHead& next) {
    switch (ledger_.commit(archive, head, next)) {
      case CrowdLedger::Commit::kConflict:
        return note('x');
      case CrowdLedger::Commit::kRefused:
        return note('r');
      case CrowdLedger::Commit::kDone:
        break;
    }
    note('s');
    if (const auto noted = store::DirectoryStore(place_.store)
                               .update_index(entry(archive, next, head.generation + 1));
        !noted)
      wrong(noted.error().message);
    if (const auto noted = store::DirectoryStore(place_.store)
                               .note_node_product("node-" + std::to_string(archive),
                                                  "product-" + std::to_string(random_() % 2));
        !noted)
      wrong(noted.error().message);
  }

  static IndexEntry entry(int archive, const CrowdHead& head, int generation) {
    return {head.manifest,
            head.manifest_bytes,
            {{kAnnotationName, "archive-" + std::to_string(archive)},
             {kAnnotationGeneration, std::to_string(generation)}}};
  }

  // The archives in the index may be swept by now, but the index is never torn.
  void look_at_index() const {
    const Index index = store::DirectoryStore(place_.store).read_index().value();
    if (!index.problems.empty()) wrong(index.problems.front());
    for (const IndexEntry& entry : index.entries) {
      const auto manifest = read_manifest(store::DirectoryStore(place_.store), entry.digest);
      if (!manifest && manifest.error().code != ErrorCode::kNotFound)
        wrong(manifest.error().message);
      if (manifest && manifest->size != entry.size) wrong("another size in the index");
    }
    for (int archive = 0; archive < kCrowdArchives; ++archive) {
      const auto product =
          store::DirectoryStore(place_.store).node_product("node-" + std::to_string(archive));
      if (product && !product->starts_with("product-")) wrong("a torn note of a node");
    }
    note('i');
  }

  void sweep() const {
    const auto begun = ledger_.begin_sweep(kGraceSeconds);
    if (!begun.granted) return;
    const auto now = std::chrono::system_clock::now();
    const auto incomplete =
        store::DirectoryStore(place_.store).remove_incomplete(kIncompleteAge, now);
    const auto deleted = store::DirectoryStore(place_.store).remove(begun.deletable);
    if (!incomplete || !deleted || !deleted->failures.empty()) wrong("a sweep failed");
    for (uint64_t i = 0; i < deleted->removed; ++i) note('d');
    std::vector<IndexEntry> entries;
    for (int archive = 0; archive < kCrowdArchives; ++archive) {
      const CrowdHead& head = begun.heads[archive];
      if (!head.manifest.empty()) entries.push_back(entry(archive, head, head.generation));
    }
    if (const auto written = store::DirectoryStore(place_.store).write_index(entries); !written)
      wrong(written.error().message);
    const auto blobs = store::DirectoryStore(place_.store).list();
    if (!blobs) wrong(blobs.error().message);
    std::vector<std::string> inventory;
    for (const StoredBlob& blob : *blobs) inventory.push_back(blob.digest);
    ledger_.end_sweep(inventory);
    note('w');
  }

  const Place& place_;
  CrowdLedger& ledger_;
  std::mt19937_64 random_;
  const std::string here_;
  const Fd notes_;
};

class Crowd : public ArchiveTest {
 protected:
  Crowd() {
    fs::create_directories(place_.work);
    write_file(place_.notes, "");
    const auto seconds = number_from("CC_CROWD_SECONDS", 10);
    place_.end = Clock::now() + std::chrono::seconds(seconds);
  }

  void start_one() {
    const uint64_t seed = random_();
    const pid_t process = ::fork();
    if (process == 0) {
      Actor(place_, ledger_, seed).run();
      ::_exit(0);
    }
    running_.insert(process);
  }

  // Kills it at any moment, except during a change of the ledger, which is a file of this test.
  void kill_one() {
    auto victim = running_.begin();
    std::advance(victim, static_cast<long>(random_() % running_.size()));
    ledger_.undisturbed([&] { ::kill(*victim, SIGKILL); });
    int status = 0;
    ::waitpid(*victim, &status, 0);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "see below";
    running_.erase(victim);
    ++killed_;
  }

  void wait_for_all() {
    for (const pid_t process : running_) {
      int status = 0;
      ASSERT_EQ(::waitpid(process, &status, 0), process);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "a process ended badly";
    }
    for (const auto& name : names_below(place_.work)) {
      if (name.starts_with("wrong-")) ADD_FAILURE() << read_file(place_.work + "/" + name);
    }
  }

  void expect_what_was_committed() {
    for (int archive = 0; archive < kCrowdArchives; ++archive) {
      const CrowdHead head = ledger_.head(archive);
      if (head.manifest.empty()) continue;
      EXPECT_EQ(load(head.manifest), head.tree());
    }
  }

  // When no process runs any more, sweeps delete all blobs that no head reaches, and nothing else.
  void expect_nothing_left_over() {
    const auto referenced = ledger_.referenced();
    const std::set<std::string> live(referenced.begin(), referenced.end());
    std::vector<std::string> garbage;
    std::set<std::string> present;
    const auto blobs = store_.list();
    ASSERT_TRUE(blobs);
    for (const StoredBlob& blob : *blobs) {
      present.insert(blob.digest);
      if (!live.contains(blob.digest)) garbage.push_back(blob.digest);
    }
    for (const std::string& digest : live) EXPECT_TRUE(present.contains(digest)) << digest;
    ASSERT_TRUE(store_.remove(garbage));
    ASSERT_TRUE(store_.remove_incomplete(std::chrono::seconds(0),
                                         std::chrono::system_clock::now() + std::chrono::hours(1)));
    EXPECT_EQ(names_below(store_.path() + "/blobs/sha256").size(), live.size());
    for (const std::string& name : names_below(store_.path()))
      EXPECT_FALSE(name.ends_with(".incomplete")) << name;
  }

  void print_counts() const {
    const std::string notes = read_file(place_.notes);
    const auto count = [&](char what) { return std::count(notes.begin(), notes.end(), what); };
    std::cout << "loads " << count('l') << ", checks " << count('c') << ", index " << count('i')
              << ", saves committed " << count('s') << ", lost " << count('x') << ", refused "
              << count('r') << ", sweeps " << count('w') << ", blobs deleted " << count('d')
              << ", swept under a reader " << count('g') << ", killed " << killed_ << "\n";
    for (const char what : {'l', 's', 'w', 'd'}) EXPECT_GT(count(what), 0) << what;
  }

  Place place_{store_.path(), temp_.path("work"), temp_.path("notes"), {}};
  CrowdLedger ledger_{temp_.path("ledger")};
  const uint64_t seed_ = number_from("CC_TEST_SEED", std::random_device{}());
  std::mt19937_64 random_{seed_};
  std::set<pid_t> running_;
  int killed_ = 0;
};

TEST_F(Crowd, SavesLoadsAndSweepsAtOnceWhileProcessesAreKilled) {
  std::cout << "CC_TEST_SEED=" << seed_ << "\n";
  for (int i = 0; i < kProcesses; ++i) start_one();
  while (Clock::now() < place_.end && !HasFailure()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(random_() % 200));
    kill_one();
    start_one();
  }
  wait_for_all();
  expect_what_was_committed();
  expect_nothing_left_over();
  expect_what_was_committed();
  print_counts();
}

}  // namespace
}  // namespace compilecache::archive::test
