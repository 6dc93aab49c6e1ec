#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "tests/simulation/invariants/invariant.hpp"
#include "tests/simulation/os/scheduler.hpp"

// What holds of each answer that tells a pod to load, whichever replica gives it.

namespace compilecache::simulation {
namespace {

constexpr int64_t kStillHandedOut = 60 * kSecond;
// A place is free again when its load ends, or when it is expected to have ended: not before this.
constexpr int64_t kPlaceHeld = 2 * kSecond;

class QuarantinedIsKept : public Invariant {
 public:
  QuarantinedIsKept()
      : Invariant("what is quarantined for 60 s is handed out by no replica to who asks then") {}
  void archive_written(const api::CompileCacheArchive& archive) override {
    auto& since = since_[archive.metadata.key()];
    std::map<std::string, int64_t> now;
    for (const api::ArchiveHead* head : {&archive.head, &archive.previous}) {
      if (!head->exists() || !is_quarantined(archive, *head)) continue;
      const auto known = since.find(head->manifest_digest);
      now[head->manifest_digest] = known == since.end() ? now_ns() : known->second;
    }
    since = std::move(now);
  }
  void load_answered(const AnsweredLoad& answer) override {
    const auto& quarantined = since_[answer.ns + "/" + answer.archive];
    const auto found = quarantined.find(answer.manifest_digest);
    if (found == quarantined.end()) return;
    const int64_t ago = answer.began_ns - found->second;
    if (ago > kStillHandedOut) {
      violated(answer.pod, answer.archive + " was quarantined " + std::to_string(ago / kSecond) +
                               " s before it asked");
    }
  }

 private:
  static bool is_quarantined(const api::CompileCacheArchive& archive,
                             const api::ArchiveHead& head) {
    const auto is_of_head = [&](const api::DistrustedBlob& blob) {
      return blob.digest == head.manifest_digest ||
             std::find(head.blobs.begin(), head.blobs.end(), blob.digest) != head.blobs.end();
    };
    return std::any_of(archive.distrusted.begin(), archive.distrusted.end(), is_of_head) &&
           (api::is_suspect(archive) || api::is_corrupt(archive));
  }

  std::map<std::string, std::map<std::string, int64_t>> since_;  // by archive and manifest
};

class OnlyCommitted : public Invariant {
 public:
  OnlyCommitted()
      : Invariant("a load is answered with a head that was committed to that archive") {}
  void archive_written(const api::CompileCacheArchive& archive) override {
    auto& heads = heads_[{archive.metadata.ns, archive.cache, archive.metadata.name}];
    if (archive.head.exists()) heads.insert(archive.head.manifest_digest);
  }
  void load_answered(const AnsweredLoad& answer) override {
    const auto heads = heads_.find({answer.ns, answer.cache, answer.archive});
    if (heads != heads_.end() && heads->second.contains(answer.manifest_digest)) return;
    violated(answer.pod, answer.manifest_digest + " of archive " + answer.archive);
  }

 private:
  std::map<std::array<std::string, 3>, std::set<std::string>> heads_;
};

class PlacesAreBounded : public Invariant {
 public:
  explicit PlacesAreBounded(const WorldView& world)
      : Invariant("no more pods load at once than twice the places, and a namespace's share"),
        world_(world) {}
  void load_answered(const AnsweredLoad& answer) override {
    loading_[answer.pod] = {answer.ns, now_ns()};
    std::set<std::string> namespaces;
    int count = 0;
    for (const auto& [pod, load] : loading_) {
      if (load.since < now_ns() - kPlaceHeld) continue;
      ++count;
      namespaces.insert(load.ns);
    }
    // A namespace whose share others use gets a place beyond the limit.
    const double bound = 2 * world_.places * (1 + std::log(static_cast<double>(namespaces.size())));
    if (count > bound) violated(answer.pod, std::to_string(count) + " pods load");
  }
  void loader_ended(const std::string& pod) override { loading_.erase(pod); }

 private:
  struct Load {
    std::string ns;
    int64_t since = 0;
  };
  const WorldView& world_;
  std::map<std::string, Load> loading_;  // by pod
};

}  // namespace

std::unique_ptr<Invariant> quarantined_is_not_handed_out() {
  return std::make_unique<QuarantinedIsKept>();
}

std::unique_ptr<Invariant> only_committed_heads_are_handed_out() {
  return std::make_unique<OnlyCommitted>();
}

std::unique_ptr<Invariant> places_stay_within_bounds(const WorldView& world) {
  return std::make_unique<PlacesAreBounded>(world);
}

}  // namespace compilecache::simulation
