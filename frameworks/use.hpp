#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "frameworks/rules.hpp"
#include "frameworks/scan.hpp"

// Which entries of an archive nobody reads any more. Every pod loads all of an archive, so what one
// pod adds and no other uses would grow it with each pod. Savers note how often an entry was loaded
// and not read; an archive's note travels from save to save.
//
//   UseNote note = UseNote::parse(text);          // of the archive that is extended
//   note.take(observed, today, true);             // what this pod has read, and what it has not
//   note.is_dead(family_hash("torch", family), today);
//
// Only entries of which a saver has seen that they were not read have a record, so that the note of
// an archive that all pods use is empty. Pure; not thread-safe.

namespace compilecache::frameworks {

// Names a family (Rules::family) of a framework in notes.
std::string family_hash(std::string_view framework, std::string_view family);

// How a pod has used the entries that it was given.
struct ObservedUse {
  std::unordered_set<std::string> read;            // or written itself
  std::unordered_map<std::string, bool> not_read;  // to whether it is older than a day
  // Adds those of one framework's directory. Nothing where reads do not show.
  void add(const Rules& rules, const Scan& scan, const LoadedFiles& loaded, WallTime now);
};

class UseNote {
 public:
  // The most records, of some 31 bytes each; those that were missed the least often go.
  static constexpr size_t kMost = 600;
  // An entry that no pod has read since it was saved is dead after so many pods that could have and
  // saved something themselves; after fewer when a day has passed.
  static constexpr uint32_t kMissesAtOnce = 24, kMisses = 8;
  // One that was read before, after as many pods and so many days.
  static constexpr int64_t kDays = 14;
  // A pod that reads an entry saves that, where so many have not read it.
  static constexpr uint32_t kAtRisk = 4;

  // Lines that are no records are passed over.
  static UseNote parse(std::string_view text);
  [[nodiscard]] std::string dump() const;

  // `missed`: this pod has not been counted yet for what it did not read.
  void take(const ObservedUse& observed, int64_t today, bool missed);
  [[nodiscard]] bool is_dead(const std::string& family, int64_t today) const;
  [[nodiscard]] bool has_dead(int64_t today) const;
  void forget_dead(int64_t today);
  // Whether something was read that would be dead soon.
  [[nodiscard]] bool saves(const ObservedUse& observed) const;
  [[nodiscard]] bool empty() const { return records_.empty(); }

 private:
  struct Record {
    int64_t day = 0;      // since 1970, when it was read or first missed
    uint32_t misses = 0;  // pods in a row
    bool read = false;    // by any pod
    [[nodiscard]] bool dead(int64_t today) const;
  };
  void keep_most();
  std::map<std::string, Record> records_;  // by family_hash()
};

int64_t day_of(WallTime time);

}  // namespace compilecache::frameworks
