#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"
#include "frameworks/worth.hpp"

// Whether a loaded archive was of use, judged from what the app read and what it made.
//
//   EffectJudge judge;
//   for (each framework) judge.add(rules, scan, loaded);
//   Evidence evidence = judge.result();      // evidence.effect, evidence.read_entries, ...
//
// Entries decide, not files: a warm run reads the entry, while a changed setting misses every graph
// and makes one new entry. An entry made in a folder that was loaded is a new one as well: the app
// looked there and compiled nevertheless, and so is a loaded one that was written anew: it was not
// good enough. Derived files (Triton's) count only where no entry (Inductor's) tells: Inductor
// writes Triton's files out of its own entries on a hit, so new ones prove no compile.

namespace compilecache::frameworks {

// Names of new entries that are worth telling; one shows what kind was compiled anew.
inline constexpr size_t kNamedEntries = 4;

struct Evidence {
  Effect effect = Effect::kUnused;
  uint64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  // How long this pod compiled, as far as the times of the files that it made tell: the time from
  // each to the next, without most of what lies between one entry and what is made after it, which
  // the app may spend otherwise.
  Duration compile_time{0};

  // Of the new entries those that were made first, "torch/fxgraph/hw/fhwqm6"; at most
  // kNamedEntries of each framework.
  std::vector<std::string> new_names;
  // What differs between the key of what was loaded and that of what was made, by name
  // (frameworks/factors.hpp); empty: not known. The judge does not fill this.
  std::vector<std::string> differing;

  [[nodiscard]] double compile_seconds() const;
  bool operator==(const Evidence&) const = default;
};

// Not thread-safe; one object judges one moment.
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
    size_t entry;  // a hash of the folder that is its entry; 0: it is in none
  };
  [[nodiscard]] Duration compile_time() const;

  Counts entries_, derived_;
  bool reads_visible_ = true;
  std::vector<Made> made_;
};

}  // namespace compilecache::frameworks
