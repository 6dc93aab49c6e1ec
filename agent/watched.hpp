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
#include "archive/manifest.hpp"
#include "archive/write.hpp"
#include "frameworks/effect.hpp"
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

// The plans of all directories together.
struct SaveView {
  std::vector<archive::SourceFile> files;  // new
  uint64_t bytes = 0;
  std::vector<std::string> busy, left_over;  // "torch/..."
  uint64_t held = 0, held_entries = 0, unread = 0, never_packed = 0, not_regular = 0;
  uint64_t unreadable = 0;  // files and directories that this user may not read
  bool truncated = false;   // there are more than kMaxScanned
  WallTime last_activity{};
};

// Not thread-safe.
class Watched {
 public:
  // What was loaded comes from the control directory, which must outlive it.
  Watched(const api::AgentConfig& config, const LoadStatus& load, const ControlDirectory& control);

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

  [[nodiscard]] SaveView plan(const HeldFiles& held, std::optional<WallTime> saved_at);
  [[nodiscard]] frameworks::Evidence judge() const;

  // The writer could not read this file ("torch/..."); it is not new again until it changes.
  void set_unreadable(const std::string& path);

 private:
  struct Directory {
    std::string path;
    frameworks::Rules rules;
    frameworks::LoadedFiles loaded;  // its files from look() to forget()
    ElfCache elf;
    ScanResult scan;
  };
  void read_loaded(Directory& directory);
  [[nodiscard]] static std::vector<std::string> differing_factors(const Directory& directory);
  void add_plan(Directory& directory, const frameworks::SavePlan& plan, SaveView& view) const;
  [[nodiscard]] bool known_unreadable(const std::string& path,
                                      const frameworks::FileInfo& file) const;

  const ControlDirectory& control_;
  bool loaded_ = false;
  bool told_unknown_ = false;  // that what was loaded cannot be read
  std::chrono::milliseconds young_;
  std::vector<Directory> directories_;
  std::map<std::string, WallTime> unreadable_;  // and the change that it was last tried after
  WallTime looked_at_{};
  size_t fingerprint_ = 0;  // of all that the last look saw
  bool changed_ = true;
};

}  // namespace compilecache::agent
