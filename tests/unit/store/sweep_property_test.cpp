#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "base/time_format.hpp"
#include "operator/archives/save_rules.hpp"
#include "operator/archives/sweep_guard.hpp"
#include "operator/storage/sweep_ledger.hpp"
#include "store/upkeep.hpp"
#include "tests/unit/archive/archive_fixture.hpp"

// Savers, sweep Jobs and deleted archives in any order, on a real store. The operator's own rules
// say what a sweep may delete, which commits it refuses and what a commit writes. Blobs of
// a head, or of the head before it, always exist. RC_PARAMS="max_success=2000" tries more.

namespace compilecache::archive::test {
namespace {

namespace fs = std::filesystem;
using controller::SaveInFlight;
using controller::SweepGuard;

[[maybe_unused]] const int kInMemory =
    ::access("/dev/shm", W_OK) == 0 ? ::setenv("TMPDIR", "/dev/shm", 0) : 0;

constexpr const char* kCache = "ml/demo";
const controller::SaveContext kPod{.ns = "ml", .pod = "web-1", .cache = "demo"};
// Few archives with few different files, so that swept blobs are made again.
constexpr int kArchives = 2;

int number(int from, int below) { return *rc::gen::inRange(from, below); }

class World : public ArchiveTest {
 public:
  World() : archives_(kArchives) {}
  void TestBody() override {}

  void step() {
    switch (number(0, 9)) {
      case 0:
      case 1:
        return begin_save(number(0, kArchives));
      case 2:
      case 3:
        return commit_one();
      case 4:
      case 5:
      case 6:
        return sweep_ && number(0, 4) > 0 ? end_sweep() : begin_sweep();
      case 7:
        now_ += std::chrono::minutes(number(5, 30));
        return;
      default:
        if (number(0, 2) == 0) archives_[number(0, kArchives)] = {};  // kubectl delete
    }
  }

  void check() {
    for (const auto& archive : archives_) {
      for (const auto* head : {&archive.head, &archive.previous}) {
        if (head->exists()) RC_ASSERT(verify(store_, head->manifest_digest).has_value());
      }
    }
  }

 private:
  struct Save {
    int archive;
    SaveInFlight id;
    std::string parent;
    ArchiveInfo written;
  };

  [[nodiscard]] std::vector<SaveInFlight> in_flight() const {
    std::vector<SaveInFlight> saves;
    for (const Save& save : saves_) saves.push_back(save.id);
    return saves;
  }

  // Writes the save's blobs; the commit comes later, or never.
  void begin_save(int archive) {
    const std::string parent = controller::extends_head(kPod, {}, archives_[archive])
                                   ? archives_[archive].head.manifest_digest
                                   : "";
    const SaveInFlight id{std::to_string(archive), ++fence_};
    const std::string root = temp_.path("source");
    write_tree(root, {{"f" + std::to_string(number(0, 2)),
                       {noise(300, static_cast<uint64_t>(number(0, 2))), false}}});
    WriteRequest request;
    request.parent = parent;
    request.files = sources(root);
    request.settings.compression_level = 1;
    request.settings.threads = 1;
    const auto written = write_archive(store_, request);
    fs::remove_all(root);
    RC_ASSERT(written.has_value());  // the parent is there
    if (!written->nothing_new) saves_.push_back({archive, id, parent, written->archive});
  }

  void commit_one() {
    if (saves_.empty()) return;
    const auto which = saves_.begin() + number(0, static_cast<int>(saves_.size()));
    const Save save = *which;
    saves_.erase(which);
    auto& archive = archives_[save.archive];
    const api::CommitRequest request{.fence = save.id.fence,
                                     .parent_digest = save.parent,
                                     .manifest_digest = save.written.manifest,
                                     .blobs = save.written.blobs()};
    if (!save.parent.empty() && archive.head.manifest_digest != save.parent) return;  // lost
    if (!controller::unfit(kPod, request, archive, {}).empty()) return;
    for (const std::string& blob : request.blobs) {
      if (guard_.refuses(kCache, save.id, blob)) return;
    }
    controller::put_head(kPod, request, format_time(now_), archive);
  }

  void begin_sweep() {
    sweep_ = controller::deletable_digests(listed_, controller::referenced_digests(archives_), now_,
                                           std::chrono::minutes(15));
    guard_.begins(kCache, *sweep_, in_flight());
  }

  void end_sweep() {
    const auto deleted = store_.remove(*sweep_);
    RC_ASSERT(deleted.has_value() && deleted->failures.empty());
    if (number(0, 4) == 0) return sweep_.reset();  // the Job dies before it reports
    const auto blobs = store_.list();
    RC_ASSERT(blobs.has_value());
    controller::LedgerFacts facts;
    for (const StoredBlob& blob : *blobs) facts.inventory.push_back(blob.digest);
    facts.referenced = controller::referenced_digests(archives_);
    facts.listed = listed_;
    facts.handed = guard_.ends(kCache, in_flight());
    facts.saves_in_flight = !saves_.empty();
    facts.now = now_;
    listed_ = controller::condemn(facts);
    sweep_.reset();
  }

  std::vector<api::CompileCacheArchive> archives_;
  std::vector<Save> saves_;
  std::vector<api::CondemnedBlob> listed_;
  SweepGuard guard_;
  std::optional<std::vector<std::string>> sweep_;  // the blobs that a running Job has to delete
  int64_t fence_ = 0;
  WallTime now_ = *parse_time("2026-01-01T00:00:00Z");
};

RC_GTEST_PROP(SweepProperties, ASweepNeverRemovesWhatAHeadReaches, ()) {
  World world;
  for (int steps = number(20, 150); steps > 0; --steps) {
    world.step();
    world.check();
  }
}

}  // namespace
}  // namespace compilecache::archive::test
