#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
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

namespace compilecache::agent {

// What an archive holds, by top-level folder ("torch").
using HeldFiles = std::map<std::string, frameworks::PathSet, std::less<>>;
HeldFiles held_files(const archive::Config& config);

// The plans of all directories together.
struct SaveView {
  std::vector<archive::SourceFile> files;  // new
  uint64_t bytes = 0;
  std::vector<std::string> busy, left_over;  // "torch/..."
  uint64_t held = 0, held_entries = 0, unread = 0, never_packed = 0, not_regular = 0;
  uint64_t unreadable = 0;  // files and directories that this user may not read
  WallTime last_activity{};
};

// Not thread-safe.
class Watched {
 public:
  // What was loaded comes from the control directory.
  Watched(const api::AgentConfig& config, const LoadStatus& load, const ControlDirectory& control);

  // Scans all directories. Reads no file, so the access times stay the app's.
  Status look();
  // Whether the last look saw anything else than the one before it.
  [[nodiscard]] bool changed() const { return changed_; }
  // When the last look began.
  [[nodiscard]] WallTime looked_at() const { return looked_at_; }

  [[nodiscard]] SaveView plan(const HeldFiles& held, std::optional<WallTime> saved_at);
  [[nodiscard]] frameworks::Evidence judge() const;

  // The writer could not read this file ("torch/..."); it is not new again until it changes.
  void set_unreadable(const std::string& path);

 private:
  struct Directory {
    std::string path;
    frameworks::Rules rules;
    frameworks::LoadedFiles loaded;
    ElfCache elf;
    ScanResult scan;
  };
  [[nodiscard]] static std::vector<std::string> differing_factors(const Directory& directory);
  void add_plan(Directory& directory, const frameworks::SavePlan& plan, SaveView& view) const;
  [[nodiscard]] bool known_unreadable(const std::string& path,
                                      const frameworks::FileInfo& file) const;

  bool loaded_ = false;
  std::chrono::milliseconds young_;
  std::vector<Directory> directories_;
  std::map<std::string, WallTime> unreadable_;  // and the change that it was last tried after
  WallTime looked_at_{};
  size_t fingerprint_ = 0;  // of all that the last look saw
  bool changed_ = true;
};

}  // namespace compilecache::agent
