#include "frameworks/plan.hpp"

#include <algorithm>
#include <unordered_set>

namespace compilecache::frameworks {
namespace {

// The kernel stamps files with the time of its last tick, up to 10 ms ago (CONFIG_HZ=100).
constexpr std::chrono::milliseconds kTick{10};

using Views = std::unordered_set<std::string_view>;

class Planner {
 public:
  Planner(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge, WallTime now,
          const IsWholeElf& is_whole_elf)
      : rules_(rules), scan_(scan), know_(knowledge), now_(now), is_whole_elf_(is_whole_elf) {}

  SavePlan run() {
    classified_ = find_unfinished(rules_, scan_);
    note_own_entries();
    note_read_units();
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

  // Whether the file is of an entry that the archive holds and that is another pod's work.
  [[nodiscard]] bool in_held_entry(std::string_view path) const {
    if (know_.held == nullptr) return false;
    const auto entry = rules_.entry_directory(path);
    return entry && know_.held->has_directory(*entry) && !own_entries_.contains(*entry);
  }

  void note_read_units() {
    if (know_.loaded == nullptr || !know_.loaded->reads_visible) return;
    for (const FileInfo& item : scan_) {
      if (is_loaded(item.path) && item.accessed > kUnreadTime) {
        read_units_.insert(rules_.unit(item.path));
      }
    }
  }

  [[nodiscard]] bool dead(const FileInfo& file) const {
    return is_loaded(file.path) && know_.loaded->reads_visible && !rewritten(file) &&
           !read_units_.contains(rules_.unit(file.path));
  }

  void decide(const FileInfo& file) {
    if (file.type != FileType::kRegular) {
      ++plan_.not_regular;
    } else if (rules_.never_packed(file.path)) {
      ++plan_.never_packed;
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
    if (rules_.must_be_elf(file.path) && !is_whole_elf_(file)) {
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
  const IsWholeElf& is_whole_elf_;
  Classified classified_;
  Views own_entries_, read_units_;
  SavePlan plan_;
};

}  // namespace

SavePlan plan_save(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge,
                   WallTime now, const IsWholeElf& is_whole_elf) {
  return Planner(rules, scan, knowledge, now, is_whole_elf).run();
}

}  // namespace compilecache::frameworks
