#include "frameworks/plan.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace compilecache::frameworks {
namespace {

// The kernel stamps files with the time of its last tick, up to 10 ms ago (CONFIG_HZ=100).
constexpr std::chrono::milliseconds kTick{10};

using Views = std::unordered_set<std::string_view>;

class Planner {
 public:
  Planner(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge, WallTime now,
          const IsWhole& is_whole)
      : rules_(rules), scan_(scan), know_(knowledge), now_(now), is_whole_(is_whole) {}

  SavePlan run() {
    classified_ = find_unfinished(rules_, scan_);
    note_own_entries();
    note_indexes();
    note_live_families();
    note_outgrown();
    for (size_t i = 0; i < scan_.size(); ++i) {
      const FileInfo& item = scan_[i];
      if (!stays_out(item)) plan_.last_activity = std::max(plan_.last_activity, last_change(item));
      if (item.type != FileType::kDirectory && classified_.unit_of[i] < 0) decide(item);
    }
    for (const UnfinishedUnit& unit : classified_.units) note_unfinished(unit.path, unit.newest);
    return std::move(plan_);
  }

 private:
  // A lock that is touched again and again, and the folder of such, keep no save from its silence.
  [[nodiscard]] bool stays_out(const FileInfo& item) const {
    return rules_.never_packed(item.type == FileType::kDirectory ? item.path + "/any" : item.path);
  }
  [[nodiscard]] bool is_loaded(std::string_view path) const {
    return know_.loaded != nullptr && know_.loaded->files.contains(path);
  }
  [[nodiscard]] bool is_held(std::string_view path) const {
    return know_.held != nullptr && know_.held->contains(path);
  }

  // When the file was changed last, by this machine's clock; a loaded file's modification time is
  // by the clock of the machine that made it.
  [[nodiscard]] WallTime last_change(const FileInfo& file) const {
    return is_loaded(file.path) ? file.changed : std::max(file.modified, file.changed);
  }

  // Whether this pod wrote the file after it was loaded or last saved. Its modification time may
  // have been set to what it was before (cp -p, rsync); ctime cannot be. A ctime that only says
  // chmod costs the writer a look at the content.
  [[nodiscard]] bool rewritten(const FileInfo& file) const {
    const bool loaded = is_loaded(file.path);
    const WallTime written = last_change(file);
    if (loaded && written <= know_.loaded->at) return false;
    return know_.saved_at ? written + kTick > *know_.saved_at : loaded;
  }

  // An entry is this pod's own work where the archive has a file of it that lies here without
  // having been loaded.
  void note_own_entries() {
    for (const FileInfo& item : scan_) {
      if (item.type != FileType::kRegular || !is_held(item.path) || is_loaded(item.path)) continue;
      if (const auto entry = rules_.entry_directory(item.path)) own_entries_.insert(*entry);
    }
  }

  // An index and the files that it leads to.
  struct Indexed {
    const FileInfo* index = nullptr;
    bool packs = false;     // it is this pod's, or the archive has none
    bool finished = false;  // what it leads to was written after it
    bool said = false;
  };
  void note_indexes() {
    if (!rules_.has_indexes()) return;
    for (const FileInfo& item : scan_) {
      if (item.type != FileType::kRegular) continue;
      const std::string_view group = rules_.index_of(item.path);
      if (!group.empty()) indexed_[group] = {&item, !is_held(item.path) || rewritten(item)};
    }
    for (const FileInfo& item : scan_) {
      Indexed* group = item.type == FileType::kRegular ? indexed(item.path) : nullptr;
      if (group == nullptr || group->index == &item) continue;
      group->finished = group->finished || item.modified >= group->index->modified;
    }
  }
  Indexed* indexed(std::string_view path) {
    if (indexed_.empty()) return nullptr;
    const size_t name = path.rfind('/') + 1;
    for (size_t dot = path.rfind('.'); dot != std::string_view::npos && dot > name;
         dot = path.rfind('.', dot - 1)) {
      const auto found = indexed_.find(path.substr(0, dot));
      if (found != indexed_.end()) return &found->second;
    }
    return nullptr;
  }

  // Files with an index are packed all or not at all, as they are in this pod.
  void decide_indexed(const FileInfo& file, Indexed& group) {
    if (!group.finished) {
      if (!std::exchange(group.said, true)) {
        note_unfinished(group.index->path, last_change(*group.index));
      }
    } else if (!group.packs) {
      is_held(file.path) ? ++plan_.held : ++plan_.held_entries;
    } else if (!is_held(file.path) && dead(file)) {
      ++plan_.unread;
    } else {
      if (!std::exchange(group.said, true))
        plan_.replaced.emplace_back(rules_.index_of(group.index->path));
      pack(file);
    }
  }

  // Whether the file is of an entry that the archive holds and that is another pod's work.
  [[nodiscard]] bool in_held_entry(std::string_view path) const {
    if (know_.held == nullptr) return false;
    const auto entry = rules_.entry_directory(path);
    return entry && know_.held->has_directory(*entry) && !own_entries_.contains(*entry);
  }

  [[nodiscard]] bool may_be_dead() const {
    return know_.loaded != nullptr && know_.loaded->reads_visible;
  }
  [[nodiscard]] bool unread(const FileInfo& file) const {
    return is_loaded(file.path) && file.accessed <= kUnreadTime && !rewritten(file);
  }

  // Of what belongs together one file that was read, or that this pod wrote, shows that all of it
  // is of use.
  void note_live_families() {
    if (!may_be_dead()) return;
    for (const FileInfo& item : scan_) {
      if (item.type != FileType::kRegular) continue;
      const std::string_view family = rules_.family(item.path);
      if (!unread(item)) live_.insert(family);
      if (is_loaded(item.path) && rules_.is_of_entry(item.path)) of_entries_.insert(family);
    }
  }

  // Of the small files that may be of use the oldest, where they would be too many.
  void note_outgrown() {
    if (!may_be_dead()) return;
    std::vector<const FileInfo*> kept;
    for (const FileInfo& item : scan_) {
      if (item.type == FileType::kRegular && !is_held(item.path) && not_needed(item) &&
          may_be_looked_for(item)) {
        kept.push_back(&item);
      }
    }
    std::sort(kept.begin(), kept.end(), [](const FileInfo* a, const FileInfo* b) {
      return std::tie(b->modified, a->path) < std::tie(a->modified, b->path);
    });
    uint64_t bytes = 0;
    for (const FileInfo* file : kept) {
      bytes += file->size;
      if (bytes > kMostUnreadBytes) outgrown_.insert(file->path);
    }
  }

  [[nodiscard]] bool not_needed(const FileInfo& file) const {
    return unread(file) && !live_.contains(rules_.family(file.path));
  }
  // No key leads to it, so it is never read; its existence may still count.
  [[nodiscard]] bool may_be_looked_for(const FileInfo& file) const {
    return file.size <= kSmallFile && !of_entries_.contains(rules_.family(file.path));
  }
  [[nodiscard]] bool dead(const FileInfo& file) const {
    return may_be_dead() && not_needed(file) &&
           (!may_be_looked_for(file) || outgrown_.contains(file.path));
  }

  [[nodiscard]] bool withheld(const FileInfo& file) {
    if (know_.in_group && rules_.must_agree(file.path)) return true;
    if (!rules_.only_from_warm(file.path)) return false;
    if (!is_warm_) is_warm_ = know_.is_warm && know_.is_warm();
    return !*is_warm_;
  }

  void decide(const FileInfo& file) {
    if (file.type != FileType::kRegular) {
      ++plan_.not_regular;
    } else if (rules_.never_packed(file.path)) {
      ++plan_.never_packed;
    } else if (withheld(file)) {
      ++plan_.withheld;
    } else if (Indexed* group = indexed(file.path); group != nullptr) {
      decide_indexed(file, *group);
    } else if (is_held(file.path)) {
      rewritten(file) ? pack(file) : static_cast<void>(++plan_.held);
    } else if (in_held_entry(file.path)) {
      ++plan_.held_entries;
    } else if (dead(file)) {
      ++plan_.unread;
    } else {
      pack(file);
    }
  }

  void pack(const FileInfo& file) {
    if (rules_.whole_by(file.path) != Rules::WholeBy::kNothing && !is_whole_(file)) {
      note_unfinished(file.path, std::max(file.modified, file.changed));
      return;
    }
    plan_.pack.push_back(&file);
    plan_.pack_bytes += file.size;
  }

  // A time in the future (the clock was set back) does not count as recent work.
  void note_unfinished(const std::string& path, WallTime newest) {
    const auto age = now_ - newest;
    const bool young = age < know_.young && age > -know_.young;
    (young ? plan_.busy : plan_.left_over).push_back(path);
  }

  const Rules& rules_;
  const Scan& scan_;
  const SaveKnowledge& know_;
  const WallTime now_;
  const IsWhole& is_whole_;
  Classified classified_;
  std::unordered_map<std::string_view, Indexed> indexed_;
  std::optional<bool> is_warm_;
  Views own_entries_, live_, of_entries_, outgrown_;
  SavePlan plan_;
};

}  // namespace

SavePlan plan_save(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge,
                   WallTime now, const IsWhole& is_whole) {
  return Planner(rules, scan, knowledge, now, is_whole).run();
}

}  // namespace compilecache::frameworks
