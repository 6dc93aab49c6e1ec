#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "agent/scan.hpp"
#include "agent/status_file.hpp"
#include "api/agent_config.hpp"
#include "archive/blob_store.hpp"
#include "archive/manifest.hpp"
#include "archive/write/source_file.hpp"
#include "frameworks/effect.hpp"
#include "frameworks/factors.hpp"
#include "frameworks/plan.hpp"

// The pod's cache directories as the saver sees them: looked at now and then, judged by what
// frameworks/ knows.
//
//   watched.look();
//   SaveView view = watched.plan(head, saved_at);
//   if (!view.files.empty() && view.busy.empty()) ...
//   watched.forget();
//   if (*watched.differs()) watched.look() ...      // some time later

namespace compilecache::agent {

// What an archive holds, by top-level folder ("torch").
using HeldFiles = std::map<std::string, frameworks::HeldPaths, std::less<>>;
HeldFiles held_files(const archive::Config& config);
// Adds paths in the archive ("torch/...").
void add_held(HeldFiles& held, const std::vector<std::string_view>& paths);

// Files that no archive can hold, with those that are of no use without them.
struct TooLarge {
  uint64_t files = 0;
  std::string why;  // of the first, for people
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
  WallTime last_activity{};
};

// Not thread-safe.
class Watched {
 public:
  // What was loaded comes from the control directory, and what it noted from the store; both must
  // outlive it, as must the clock.
  Watched(const api::AgentConfig& config, const archive::BlobStore& store, const LoadStatus& load,
          const ControlDirectory& control, const Clock& clock);

  // Scans all directories. Reads no file, so the access times stay the app's.
  Status look();
  // Whether anything is not what the last look saw. Keeps nothing of what it sees.
  Result<bool> differs();
  // Gives the memory back that the last look took. The next plan() or judge() needs a look() before
  // it.
  void forget();
  // Whether the last look saw anything else than the one before it.
  [[nodiscard]] bool changed() const { return changed_; }
  // When the last look began, or the last look for differences that found none.
  [[nodiscard]] WallTime looked_at() const { return looked_at_; }

  // By which plan() tells what is unfinished from what is left over; the config's at first.
  void set_quiet_period(std::chrono::milliseconds time);
  [[nodiscard]] SaveView plan(const HeldFiles& held, std::optional<WallTime> saved_at);
  [[nodiscard]] frameworks::Evidence judge() const;

  // What the app's files say of the framework's own keys, for the archive that is written (name of
  // a note to its text): names with keyed digests. Empty without a CompileCache, whose uid is the
  // key.
  [[nodiscard]] std::map<std::string, std::string> factor_notes() const;

  // Whether it is a file ("torch/...") that nobody packs, by the settings of today.
  [[nodiscard]] bool never_packed(const std::string& path) const;

  // The writer could not read this file ("torch/..."); it is not new again until it changes.
  // Returns its owner, -1: not known.
  int64_t set_unreadable(const std::string& path);
  // No archive can hold it; the same.
  void set_too_large(const std::string& path, const std::string& why);

 private:
  struct Directory {
    std::string path;
    frameworks::Rules rules;
    frameworks::LoadedFiles loaded;  // its files from look() to forget()
    ElfCache elf;
    ScanResult scan;
  };
  void read_loaded(Directory& directory);
  // One for each file of the app's own (or of those that were loaded, from an old archive).
  [[nodiscard]] std::vector<frameworks::Factors> factors_of(const Directory& directory,
                                                            bool loaded) const;
  // What was noted in the archive that was loaded, by framework.
  const std::vector<frameworks::Factors>& noted_factors(const std::string& framework) const;
  [[nodiscard]] std::vector<std::string> differing_factors(const Directory& directory) const;
  void add_plan(Directory& directory, const frameworks::SavePlan& plan, SaveView& view) const;
  // A file that the writer left out for good.
  struct LeftOut {
    WallTime changed;  // when it was last tried it had changed then
    std::string why;   // it is too large; empty: it cannot be read
  };
  int64_t leave_out(const std::string& path, const std::string& why);
  // Null where it is not known as such, or has changed since.
  [[nodiscard]] const LeftOut* left_out(const std::string& path,
                                        const frameworks::FileInfo& file) const;
  [[nodiscard]] std::set<std::string_view> units_without_a_file(
      const Directory& directory, const frameworks::SavePlan& plan) const;

  const ControlDirectory& control_;
  const Clock& clock_;
  const archive::BlobStore& store_;
  const std::string loaded_manifest_;
  const std::string factors_key_;
  mutable std::optional<std::map<std::string, std::vector<frameworks::Factors>>> noted_;
  bool loaded_ = false;
  bool told_unknown_ = false;  // that what was loaded cannot be read
  std::chrono::milliseconds young_;
  std::vector<Directory> directories_;
  std::map<std::string, LeftOut> left_out_;
  WallTime looked_at_{};
  size_t fingerprint_ = 0;  // of all that the last look saw
  bool changed_ = true;
};

}  // namespace compilecache::agent
