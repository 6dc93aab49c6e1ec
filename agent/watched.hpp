#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/control_directory.hpp"
#include "agent/scan.hpp"
#include "api/agent_config.hpp"
#include "archive/blob_store.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source_file.hpp"
#include "frameworks/effect.hpp"
#include "frameworks/factors.hpp"
#include "frameworks/plan.hpp"
#include "frameworks/use.hpp"

// The pod's cache directories as the saver sees them: scanned now and then, and judged by the rules
// of frameworks/.
//
//   watched.look();
//   SaveView view = watched.plan(head, notes, saved_at);
//   if (view.anything_new() && view.busy.empty()) ...
//   watched.forget();
//   if (*watched.differs()) watched.look();      // some time later

namespace compilecache::agent {

// The files that an archive holds, by top-level folder ("torch").
using HeldFiles = std::map<std::string, frameworks::HeldPaths, std::less<>>;
HeldFiles held_files(const archive::Config& config);
// Adds paths in the archive ("torch/...").
void add_held(HeldFiles& held, const std::vector<std::string_view>& paths);

// Files that are too large for any archive or too many for one, and files that are useless without
// those.
struct TooLarge {
  uint64_t files = 0;
  std::string why;        // about the first one, for people
  bool too_many = false;  // the reason of that one
};

// The plans of all directories together.
struct SaveView {
  std::vector<archive::SourceFile> files;  // new
  uint64_t bytes = 0;
  std::vector<std::string> busy, left_over;  // "torch/..."
  uint64_t held = 0, held_entries = 0, unread = 0, never_packed = 0, not_regular = 0;
  Unreadable unreadable;
  TooLarge too_large;
  bool truncated = false;  // there are more than kMaxScanned
  // What files in the archive begin with that these replace ("numba/d/f").
  std::vector<std::string> replaced;
  // This pod reads something that would soon be taken for dead (frameworks/use.hpp).
  bool saves_use = false;
  WallTime last_activity{};

  [[nodiscard]] bool anything_new() const { return !files.empty() || saves_use; }
};

// What savers note in an archive for later ones, by name.
using Notes = std::map<std::string, std::string>;
inline constexpr char kUseNote[] = "use";  // frameworks/use.hpp

// Not thread-safe.
class Watched {
 public:
  // Reads from the control directory what was loaded, and from the store what that archive notes.
  // Both must outlive it, as must the clock.
  Watched(const api::AgentConfig& config, const archive::BlobStore& store, const LoadStatus& load,
          const ControlDirectory& control, const Clock& clock);

  // Scans all directories. Reads no file, so access times still show the app's reads.
  Status look();
  // Scans all directories and returns whether anything differs from the last look. Keeps nothing of
  // what it finds.
  Result<bool> differs();
  // Frees the memory of the last look. Call look() again before the next plan() or judge().
  void forget();
  // Whether the last look found anything other than the look before.
  [[nodiscard]] bool changed() const { return changed_; }
  // When the last look began, or the last look for differences that found none.
  [[nodiscard]] WallTime looked_at() const { return looked_at_; }

  // An unfinished unit that has not changed for this long counts as left over in plan(). At first
  // it is the configuration's quiet period.
  void set_quiet_period(std::chrono::milliseconds time);
  // `notes`: of the archive to extend.
  [[nodiscard]] SaveView plan(const HeldFiles& held, const Notes& notes,
                              std::optional<WallTime> saved_at);
  [[nodiscard]] frameworks::Evidence judge() const;

  // Notes for the archive to write, by name: what the app's files say of the frameworks' own keys,
  // as names with keyed digests (frameworks/factors.hpp). The key is the CompileCache's uid;
  // without one there are no notes.
  [[nodiscard]] std::map<std::string, std::string> factor_notes() const;

  // The note on which entries are read (frameworks/use.hpp) for the archive that extends the one
  // with these notes. `missed`: this pod is to be counted for what it did not read.
  [[nodiscard]] frameworks::UseNote use(const Notes& notes, bool missed) const;
  [[nodiscard]] int64_t today() const { return frameworks::day_of(looked_at_); }
  // Whether that note says that nobody needs `path` ("torch/...") any more.
  [[nodiscard]] bool is_dead(const frameworks::UseNote& use, const std::string& path) const;

  // Notes which of these files, and of those that the archive to extend has, are from pods that
  // found all they needed (warm_notes.hpp).
  [[nodiscard]] Notes warm_notes(const Notes& notes,
                                 const std::vector<archive::SourceFile>& files) const;

  // Whether `path` ("torch/...") is a file that is never packed, by the present settings.
  [[nodiscard]] bool never_packed(const std::string& path) const;

  // Notes that the writer could not read this file ("torch/..."): it is not new again until it
  // changes. Returns its owner, -1: not known.
  int64_t set_unreadable(const std::string& path);
  // Notes that this file is too large for any archive: it is not new again until it changes.
  void set_too_large(const std::string& path, const std::string& why);
  // The same of files for which an archive has no room, though it could hold each.
  void set_too_many(const std::vector<std::string>& paths, const std::string& why);

 private:
  struct Directory {
    std::string path;
    frameworks::Rules rules;
    frameworks::LoadedFiles loaded;  // its files from look() to forget()
    WholeFiles whole;
    ScanResult scan;
  };
  void read_loaded(Directory& directory);
  // The factors in each of the app's own files, or, with `loaded`, in those that were loaded from
  // an old archive.
  [[nodiscard]] std::vector<frameworks::Factors> factors_of(const Directory& directory,
                                                            bool loaded) const;
  [[nodiscard]] frameworks::ObservedUse observed() const;
  [[nodiscard]] const Directory* directory_of(std::string_view root) const;
  // How long the making of what was loaded took, as the archive says; 0: not known.
  [[nodiscard]] double loaded_seconds() const;
  // The factors that were noted in the loaded archive, for one framework.
  const std::vector<frameworks::Factors>& noted_factors(const std::string& framework) const;
  [[nodiscard]] std::vector<std::string> differing_factors(const Directory& directory) const;
  void add_plan(Directory& directory, const frameworks::SavePlan& plan, SaveView& view) const;
  // A file that the writer left out for good.
  struct LeftOut {
    WallTime changed;  // its ctime when it was last tried
    std::string why;   // why it is too large; empty: it cannot be read
    bool too_many = false;
  };
  int64_t leave_out(const std::string& path, const std::string& why);
  // Null where the file was not left out, or has changed since.
  [[nodiscard]] const LeftOut* left_out(const std::string& path,
                                        const frameworks::FileInfo& file) const;
  static bool cut_off(const Directory& directory, std::string_view unit,
                      const frameworks::FileInfo& file);
  [[nodiscard]] std::set<std::string_view> units_without_a_file(
      const Directory& directory, const frameworks::SavePlan& plan) const;

  const ControlDirectory& control_;
  const Clock& clock_;
  const archive::BlobStore& store_;
  const std::string loaded_manifest_;
  const std::string factors_key_;
  mutable std::optional<std::map<std::string, std::vector<frameworks::Factors>>> noted_;
  const bool in_group_;
  const bool loaded_exactly_;
  mutable std::optional<double> loaded_seconds_;
  bool loaded_ = false;
  bool logged_unknown_ = false;  // that what was loaded cannot be read
  std::chrono::milliseconds young_;
  std::vector<Directory> directories_;
  std::map<std::string, LeftOut> left_out_;
  WallTime looked_at_{};
  size_t fingerprint_ = 0;  // of all that the last look found
  bool changed_ = true;
};

}  // namespace compilecache::agent
