#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"
#include "frameworks/worth.hpp"

// Judges the effect of a load from what the app has read and made since.
//
//   EffectJudge judge;
//   judge.add(rules, scan, loaded);          // for each framework
//   Evidence evidence = judge.result();      // evidence.effect, evidence.read_entries, ...
//
// Entries decide, not files: a warm run reads the entry, while a changed setting misses every graph
// and makes one new entry. A new file in a loaded entry's folder is a new entry as well, since the
// app looked there and compiled nevertheless; so is a loaded entry that was written anew. Derived
// files (Triton's) count only where there are no entries (Inductor's): on a hit Inductor writes
// Triton's files out of its own entries, so new ones prove no compile.

namespace compilecache::frameworks {

// The most names of new entries that are reported; even one shows what kind was compiled anew.
inline constexpr size_t kNamedEntries = 4;
// A pod has at most 16 GPUs today, a rank of each, and of these a folder in each layout.
inline constexpr size_t kNamedRanks = 64;

struct Evidence {
  Effect effect = Effect::kUnused;
  uint64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  // How long this pod compiled, estimated from the times of the files that it made: the time from
  // each to the next, without most of the time from an entry to a file elsewhere, which the app may
  // spend otherwise.
  Duration compile_time{0};

  // The first new entries by name ("torch/fxgraph/hw/fhwqm6"), at most kNamedEntries of each
  // framework.
  std::vector<std::string> new_names;
  // The ranks' folders in which the app has read or made a file ("vllm/…/rank_0_0"), sorted; at
  // most kNamedRanks.
  std::vector<std::string> rank_directories;
  // The names of what differs between the framework's own keys of what was loaded and what was made
  // (frameworks/factors.hpp); empty: not known. The judge does not fill this.
  std::vector<std::string> differing;

  [[nodiscard]] double compile_seconds() const;
  bool operator==(const Evidence&) const = default;
};

// Not thread-safe; one object makes one judgement.
class EffectJudge {
 public:
  // `loaded` may be null: nothing was loaded into this directory.
  void add(const Rules& rules, const Scan& scan, const LoadedFiles* loaded);
  [[nodiscard]] Evidence result() const;

 private:
  struct Counts {
    uint64_t loaded = 0, read = 0, made = 0;
    std::vector<std::string> names;
  };
  struct Made {
    WallTime when;
    size_t folder;  // a hash of the folder that is its entry, else of the one that it is in
    bool is_entry;  // whether it is an entry, or in one
  };
  [[nodiscard]] Duration compile_time() const;

  Counts entries_, derived_;
  bool reads_visible_ = true;
  std::vector<Made> made_;
  std::set<std::string> ranks_;
};

}  // namespace compilecache::frameworks
