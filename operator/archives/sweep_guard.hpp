#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.hpp"

// Keeps commits from naming blobs that a sweep Job is deleting or has just deleted.
//
//   guard.begins("ml/transformer", deletable, saves_in_flight);   // a Job got its list
//   guard.refuses("ml/transformer", {"transformer-3f9a1c04b2", 17}, digest);
//   guard.ends("ml/transformer", saves_in_flight);                // it has reported
//
// While a Job has a blob on its list, no commit may name the blob. After the Job, a save that was
// under way at its end still may not: it may have found the blob before that was deleted, and so
// not have written it. A later save sees for itself what is there. The list of a Job that the
// previous leader started is unknown, but was part of the CompileCache's status. So all of that
// counts as its list until the next Job begins.
//
// The caller that begins or ends a sweep holds the CompileCache's lock (CacheLocks), as commits do.
// Thread-safe.

namespace compilecache::controller {

struct SaveInFlight {
  std::string archive;
  int64_t fence = 0;
  auto operator<=>(const SaveInFlight&) const = default;
};

class SweepGuard {
 public:
  // `listed` is what the status holds, whether or not a Job is running.
  void take_over(const std::string& cache, const std::vector<std::string>& listed);
  // A Job begins, so the previous one is over, whether it has reported or not.
  void begins(const std::string& cache, const std::vector<std::string>& deletable,
              const std::vector<SaveInFlight>& saves);
  // The list of the Job that is running.
  [[nodiscard]] std::set<std::string> handed(const std::string& cache) const;
  // The Job has ended; returns its list.
  std::set<std::string> ends(const std::string& cache, const std::vector<SaveInFlight>& saves);

  [[nodiscard]] bool refuses(const std::string& cache, const SaveInFlight& save,
                             const std::string& digest) const;

 private:
  struct Entry {
    std::set<std::string> handed;  // to the Job that is running
    // Saves under way at the end of a Job, and what they may wrongly believe to be there.
    std::map<SaveInFlight, std::set<std::string>> misled;
  };
  static void close(Entry& entry, const std::vector<SaveInFlight>& saves);

  mutable Mutex mutex_;
  std::map<std::string, Entry> entries_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
