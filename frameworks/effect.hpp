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
// app looked there and compiled nevertheless; so is a loaded entry that was rewritten. Derived
// files (Triton's) count only where there are no entries (Inductor's): on a hit Inductor writes
// Triton's files out of its own entries, so new ones prove no compile.

namespace compilecache::frameworks {

// The most names of new entries that are reported; even one shows what kind was recompiled.
inline constexpr size_t kNamedEntries = 4;
// A pod has at most 16 GPUs today, a rank of each, and of these a folder in each layout.
inline constexpr size_t kNamedRanks = 64;

struct Evidence {
  Effect effect = Effect::kUnused;
  uint64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  // How long this pod compiled, estimated from the times of the files that it made. It is the time
  // from each to the next, without most of the time from an entry to a file elsewhere. The app may
  // spend that otherwise.
  Duration compile_time{0};
  // How much of that surely was compiling, whatever entries say: the time between the files of one
  // stem (Rules::stem), and moments between others. Files that may have been written
  // out of entries do not count. Where the effect is full it is all of compile_time.
  Duration proved_time{0};
  // Loaded files that stand for no key and that the app has read.
  uint64_t read_others = 0;

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

// The effect when it is known how many seconds the making of what was loaded took (0: not known).
// Entries are not all. Kernels that are compiled beside a graph that was found stand for no key,
// and neither do those that are found beside a recompiled graph. A pod that surely compiled
// for a noticeable share of those seconds is partial and not full. One that read kernels and
// compiled for less than half of them is partial and not none.
Effect with_seconds(const Evidence& evidence, double archive_seconds);

// Whether the pod found all that it needed, so that what it measured meanwhile was not disturbed.
bool compiled_nothing(const Evidence& evidence);

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
    size_t stem;    // a hash of it; 0: it may have been written out of an entry
  };
  [[nodiscard]] Duration compile_time() const;
  [[nodiscard]] Duration proved_time() const;

  Counts entries_, derived_;
  bool reads_visible_ = true;
  uint64_t read_others_ = 0;
  std::vector<Made> made_;
  std::set<std::string> ranks_;
};

}  // namespace compilecache::frameworks
