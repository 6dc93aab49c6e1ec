#include "operator/archives/collection_planner.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "base/time_format.hpp"

namespace compilecache::controller {
namespace {

WallTime time_or_epoch(const std::string& text) {
  if (text.empty()) return WallTime{};
  auto time = parse_time(text);
  return time ? *time : WallTime{};
}

// How many archives of one product stay for each that keepPerGPU says. Workloads and versions have
// archives of their own, and there may be any number of them: of Jobs, say.
constexpr size_t kMostLineages = 20;

// Archives that follow each other as images and drivers are replaced have the same.
api::ArchiveKey lineage_of(const api::CompileCacheArchive& archive) {
  api::ArchiveKey lineage = archive.key;
  lineage.erase(api::kImagePart);
  lineage.erase(api::kDriverVersionPart);
  return lineage;
}

struct Candidate {
  const api::CompileCacheArchive* archive = nullptr;
  WallTime used, saved;
  bool protected_from_us = false;  // in use or being saved
};

// The archives that remain after each rule.
class Plan {
 public:
  Plan(const std::vector<api::CompileCacheArchive>& archives, const std::set<std::string>& in_use) {
    for (const auto& archive : archives) {
      if (archive.metadata.deleting) continue;
      products_[product(archive)].push_back({&archive, last_used(archive),
                                             time_or_epoch(archive.head.saved_at),
                                             in_use.contains(archive.metadata.name)});
      total_ += archive.head.compressed_bytes;
    }
    for (auto& [name, members] : products_) {
      std::sort(members.begin(), members.end(), [](const Candidate& a, const Candidate& b) {
        if (a.saved != b.saved) return a.saved > b.saved;
        return a.archive->metadata.name < b.archive->metadata.name;
      });
    }
  }

  // Nothing is lost with them.
  void drop_uncommitted(WallTime before) {
    const auto group = products_.find(kUncommitted);
    if (group == products_.end()) return;
    auto& members = group->second;
    for (size_t i = members.size(); i-- > 0;) {
      const api::CompileCacheArchive& archive = *members[i].archive;
      const bool tells_something = archive.previous.exists() || !archive.conditions.empty();
      if (tells_something || !archive.lock.holder.empty()) continue;
      if (members[i].used < before && !members[i].protected_from_us) {
        drop(members, i, StaleReason::kUncommitted);
      }
    }
  }

  // The oldest go first, so that the newest of a product is asked about when it may be alone.
  void drop_unused(WallTime before) {
    for (auto& [name, members] : products_) {
      for (size_t i = members.size(); i-- > 0;) {
        if (members[i].used < before && may_go(members, i)) {
          drop(members, i, StaleReason::kUnused);
        }
      }
    }
  }

  void drop_beyond(size_t keep) {
    for (auto& [name, members] : products_) {
      if (name == kUncommitted) continue;
      std::map<api::ArchiveKey, size_t> newer;
      std::vector<bool> beyond;
      for (const Candidate& one : members) {
        beyond.push_back(newer[lineage_of(*one.archive)]++ >= keep);
      }
      for (size_t i = members.size(); i-- > 0;) {
        if (beyond[i] && may_go(members, i)) drop(members, i, StaleReason::kTooManyOfProduct);
      }
      while (members.size() > keep * kMostLineages) {
        const auto oldest = least_recently_used(members);
        if (!oldest) break;
        drop(members, *oldest, StaleReason::kTooManyOfProduct);
      }
    }
  }

  void drop_until_fits(uint64_t limit) {
    while (total_ > 0 && static_cast<uint64_t>(total_) > limit && drop_least_recently_used()) {
    }
  }

  [[nodiscard]] size_t dropped() const { return stale_.size(); }
  std::vector<StaleArchive> take() { return std::move(stale_); }

 private:
  // Objects whose first save has not been committed; they hold nothing.
  static constexpr char kUncommitted[] = "";

  static std::string product(const api::CompileCacheArchive& archive) {
    if (!archive.head.exists()) return kUncommitted;
    auto found = archive.key.find(api::kGpuProductPart);
    return found == archive.key.end() ? "any" : found->second;
  }

  // members are sorted, the newest first.
  static bool may_go(const std::vector<Candidate>& members, size_t i) {
    const bool is_newest = i == 0 && members[0].archive->head.exists();
    return !members[i].protected_from_us && !(is_newest && members.size() > 1);
  }

  void drop(std::vector<Candidate>& members, size_t i, StaleReason reason) {
    const api::CompileCacheArchive& archive = *members[i].archive;
    stale_.push_back(
        {archive.metadata.name, archive.metadata.uid, reason, archive.head.compressed_bytes});
    total_ -= archive.head.compressed_bytes;
    members.erase(members.begin() + static_cast<std::ptrdiff_t>(i));
  }

  // Of those that take room and may go.
  static std::optional<size_t> least_recently_used(const std::vector<Candidate>& members) {
    std::optional<size_t> oldest;
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i].archive->head.compressed_bytes == 0 || !may_go(members, i)) continue;
      if (!oldest || members[i].used < members[*oldest].used) oldest = i;
    }
    return oldest;
  }

  bool drop_least_recently_used() {
    std::vector<Candidate>* group = nullptr;
    size_t index = 0;
    for (auto& [name, members] : products_) {
      const auto oldest = least_recently_used(members);
      if (!oldest) continue;
      if (group == nullptr || members[*oldest].used < (*group)[index].used) {
        group = &members;
        index = *oldest;
      }
    }
    if (group == nullptr) return false;
    drop(*group, index, StaleReason::kOverTotalSize);
    return true;
  }

  std::map<std::string, std::vector<Candidate>> products_;
  int64_t total_ = 0;
  std::vector<StaleArchive> stale_;
};

}  // namespace

const char* to_string(StaleReason reason) {
  switch (reason) {
    case StaleReason::kUncommitted:
      return "incompleteTimeout";
    case StaleReason::kUnused:
      return "unusedFor";
    case StaleReason::kTooManyOfProduct:
      return "keepPerGPU";
    case StaleReason::kOverTotalSize:
      return "maxTotalSize";
  }
  return "unknown";
}

WallTime last_used(const api::CompileCacheArchive& archive) {
  return std::max({time_or_epoch(archive.last_used_time), time_or_epoch(archive.head.saved_at),
                   time_or_epoch(archive.metadata.creation_time)});
}

std::vector<StaleArchive> plan_collection(const std::vector<api::CompileCacheArchive>& archives,
                                          const api::CompileCacheSpec::Retention& retention,
                                          const std::set<std::string>& in_use, WallTime now) {
  Plan plan(archives, in_use);
  plan.drop_uncommitted(now - retention.incomplete_timeout);
  size_t dropped = 0;
  do {
    dropped = plan.dropped();
    plan.drop_unused(now - retention.unused_for);
    plan.drop_beyond(static_cast<size_t>(std::max(1, retention.keep_per_gpu)));
    plan.drop_until_fits(retention.max_total_size);
    // What stayed as the newest of several may be the only one now.
  } while (plan.dropped() != dropped);
  return plan.take();
}

}  // namespace compilecache::controller
