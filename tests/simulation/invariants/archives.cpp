#include <algorithm>
#include <array>

#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What holds of each CompileCacheArchive whenever it is written.

namespace compilecache::simulation {
namespace {

std::string name_of(const api::CompileCacheArchive& archive) { return archive.metadata.key(); }

class GenerationsGrow : public Invariant {
 public:
  GenerationsGrow() : Invariant("a committed head is only replaced by a later generation") {}
  void archive_written(const api::CompileCacheArchive& archive) override {
    Seen& seen = seen_[archive.metadata.uid];
    const api::ArchiveHead& head = archive.head;
    const bool changed = head.manifest_digest != seen.digest;
    // A previous generation takes the place of a head that is quarantined.
    if (changed && head.generation <= seen.generation && archive.distrusted.empty()) {
      violated(name_of(archive), "generation " + std::to_string(seen.generation) +
                                     " was replaced by " + std::to_string(head.generation));
    }
    seen = {head.manifest_digest, std::max(seen.generation, head.generation)};
  }

 private:
  struct Seen {
    std::string digest;
    int64_t generation = 0;
  };
  std::map<std::string, Seen> seen_;
};

class OfBlobs : public Invariant {
 public:
  OfBlobs(std::string sentence, const WorldView& world)
      : Invariant(std::move(sentence)), world_(world) {}

 protected:
  [[nodiscard]] std::vector<std::string> missing(const api::CompileCacheArchive& archive) const {
    const std::string repository = archive.metadata.ns + "/" + archive.cache;
    std::vector<std::string> found;
    for (const std::string& digest : archive.head.blobs) {
      if (!world_.registry.holds(repository, digest)) found.push_back(digest);
    }
    return found;
  }
  [[nodiscard]] bool was_damaged(const api::CompileCacheArchive& archive) const {
    const auto& blobs = archive.head.blobs;
    return std::any_of(blobs.begin(), blobs.end(), [this](const std::string& digest) {
      return world_.registry.was_damaged(digest);
    });
  }

 private:
  const WorldView& world_;
};

class WholeIsNotQuarantined : public OfBlobs {
 public:
  explicit WholeIsNotQuarantined(const WorldView& world)
      : OfBlobs("an archive whose every blob is in the store is not quarantined", world) {}
  void archive_written(const api::CompileCacheArchive& archive) override {
    if (!archive.head.exists() || !missing(archive).empty() || was_damaged(archive)) return;
    for (const api::DistrustedBlob& blob : archive.distrusted) {
      const auto& blobs = archive.head.blobs;
      if (std::find(blobs.begin(), blobs.end(), blob.digest) == blobs.end()) continue;
      violated(name_of(archive), "quarantined since " + blob.since + " (" +
                                     std::string(api::to_string(blob.reason)) + ")");
    }
  }
};

class HeadsAreWhole : public OfBlobs {
 public:
  explicit HeadsAreWhole(const WorldView& world)
      : OfBlobs("a head that is handed out names only blobs that are in the store", world) {}
  void archive_written(const api::CompileCacheArchive& archive) override {
    if (!archive.head.exists() || !archive.distrusted.empty()) return;
    const auto absent = missing(archive);
    if (!absent.empty()) violated(name_of(archive), absent.front() + " is not there");
  }
};

class UsedIsKept : public Invariant {
 public:
  explicit UsedIsKept(const WorldView& world)
      : Invariant("an archive that pods use is not deleted with its retention"), world_(world) {}
  void load_ended(const EndedLoad& load) override {
    if (!load.loaded()) return;
    Use& use = used_[{load.ns, load.cache, load.image, load.product}];
    settle(use);
    use.latest = now_ns();
  }
  void archive_deleted(const api::CompileCacheArchive& archive) override {
    if (!archive.distrusted.empty()) return;
    const auto& key = archive.key;
    const auto part = [&](const char* name) { return key.contains(name) ? key.at(name) : ""; };
    const auto used = used_.find(
        {archive.metadata.ns, archive.cache, part(api::kImagePart), part(api::kGpuProductPart)});
    if (used == used_.end()) return;
    settle(used->second);
    const int64_t ago = now_ns() - used->second.written;
    if (used->second.written == 0 || ago > kShortestRetention - kSlack) return;
    violated(name_of(archive), "was loaded " + std::to_string(ago / kSecond) + " s before");
  }

 private:
  struct Use {
    int64_t written = 0;  // nanoseconds of the run
    int64_t latest = 0;
  };
  // A leader that is killed loses what it has not written yet, so only a use that nothing
  // disturbed counts.
  void settle(Use& use) const {
    if (now_ns() < use.latest + kWritten) return;
    if (world_.is_calm(use.latest - kWritten, use.latest + kWritten)) use.written = use.latest;
  }

  static constexpr int64_t kWritten = 120 * kSecond;
  static constexpr int64_t kSlack = kHour;  // clocks jump
  const WorldView& world_;
  std::map<std::array<std::string, 4>, Use> used_;
};

class LocksAreReleased : public Invariant {
 public:
  explicit LocksAreReleased(const WorldView& world)
      : Invariant("a save's lock is free two hours later"), world_(world) {}
  void hour_passed() override {
    std::map<std::string, Held> held;
    for (const auto& [key, object] : world_.api.objects.all(kArchives)) {
      const auto archive = api::parse_archive(object);
      if (!archive || archive->lock.holder.empty()) continue;
      const auto before = held_.find(key);
      const bool same = before != held_.end() && before->second.fence == archive->lock.fence;
      held[key] = {archive->lock.fence, same ? before->second.hours + 1 : 0};
      if (held[key].hours > 2) violated(key, "held by " + archive->lock.holder);
    }
    held_ = std::move(held);
  }

 private:
  struct Held {
    int64_t fence = 0;
    int hours = 0;
  };
  const WorldView& world_;
  std::map<std::string, Held> held_;
};

}  // namespace

std::unique_ptr<Invariant> used_archives_are_kept(const WorldView& world) {
  return std::make_unique<UsedIsKept>(world);
}

std::unique_ptr<Invariant> locks_are_released(const WorldView& world) {
  return std::make_unique<LocksAreReleased>(world);
}

std::unique_ptr<Invariant> generations_only_grow() { return std::make_unique<GenerationsGrow>(); }

std::unique_ptr<Invariant> whole_archives_are_not_quarantined(const WorldView& world) {
  return std::make_unique<WholeIsNotQuarantined>(world);
}

std::unique_ptr<Invariant> handed_out_heads_are_whole(const WorldView& world) {
  return std::make_unique<HeadsAreWhole>(world);
}

}  // namespace compilecache::simulation
