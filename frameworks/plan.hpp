#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/held_paths.hpp"
#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"

// Decides which files of a framework's directory belong into the next save.
//
//   SavePlan plan = plan_save(rules, scan, knowledge, now, is_whole);
//   if (!plan.pack.empty() && plan.busy.empty()) ...   // something new, nothing under way
//
// A pure function; time and the bytes of ELF files come from the caller.

namespace compilecache::frameworks {

struct SaveKnowledge {
  // The content of the archive to extend for this directory; null: the save starts from scratch.
  const HeldPaths* held = nullptr;
  const LoadedFiles* loaded = nullptr;  // what this pod was given; null: it started cold
  // When the directory was scanned for this pod's last save. Only files of its own that changed
  // since replace what the archive holds under their path.
  std::optional<WallTime> saved_at;
  bool in_group = false;  // the pod runs only together with others
  // Whether this pod found all that it needed, so that what it measured is right
  // (Framework::only_from_warm). Asked only where it matters; empty: it did not.
  std::function<bool()> is_warm;
  // An unfinished unit that has not changed for this long was left behind by a process that died.
  std::chrono::milliseconds young{60'000};
};

// Called only for files that would be packed and of which can be seen whether they are whole
// (Rules::whole_by).
using IsWhole = std::function<bool(const FileInfo& file)>;

// Files up to this size that are no entry's are packed although nobody has read them: frameworks
// check that they exist and rely on it (PyTorch 2.15: X.so.load_ok, X.so). The newest of them, up
// to so many bytes.
inline constexpr uint64_t kSmallFile = 1ULL << 20;
inline constexpr uint64_t kMostUnreadBytes = 64ULL << 20;

struct SavePlan {
  std::vector<const FileInfo*> pack;  // into the scan
  uint64_t pack_bytes = 0;

  std::vector<std::string> busy;       // unfinished units that changed lately: wait for them
  std::vector<std::string> left_over;  // and those that did not: never packed, never waited for

  // Prefixes of files that replace all that the archive has of them ("d/f" of "d/f.1.nbc"):
  // their index is packed (Framework::index_files).
  std::vector<std::string> replaced;

  // How many files stay out, by reason.
  uint64_t held = 0;          // the archive has them
  uint64_t held_entries = 0;  // the archive has their entry under another file name
  uint64_t unread = 0;        // loaded from another archive and not used
  uint64_t never_packed = 0;
  uint64_t withheld = 0;     // right for this pod, perhaps not for others
  uint64_t not_regular = 0;  // links, devices, sockets

  // When anything in the directory that may be packed was changed last; reads do not count, and
  // loaded files count as changed when they were loaded. Where there is nothing: the beginning of
  // time.
  WallTime last_activity{};
};

SavePlan plan_save(const Rules& rules, const Scan& scan, const SaveKnowledge& knowledge,
                   WallTime now, const IsWhole& is_whole);

}  // namespace compilecache::frameworks
