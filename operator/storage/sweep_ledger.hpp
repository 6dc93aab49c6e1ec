#pragma once

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Which blobs of a store may be deleted, in two steps, so that no commit can name a blob that goes.
//
// A blob that no head reaches is put on a list with the time when it was first seen so; the grace
// outlasts any extraction by a loader that was given a head before. The list is in the
// CompileCache's status (status.condemned). A Job that starts is told to delete what has been
// listed for the grace, is still unreferenced, and is on the list as the API server has it, so that
// the next leader knows it too. From then on sweep_guard.hpp refuses commits that name it.
//
//   Job begins:  deletable_digests(listed in the status, referenced, now, grace)
//   Job ends:    listed = condemn({inventory, referenced, listed, ...})
//
// Pure; safe from any thread. Times are RFC 3339; one that cannot be read counts as now.

namespace compilecache::controller {

// What heads and the heads before them need.
std::set<std::string> referenced_digests(const std::vector<api::CompileCacheArchive>& archives);

struct LedgerFacts {
  // What the Job found when it was done, of the digests after `after` up to `up_to` (empty: all);
  // what is listed outside of that stays as it is.
  std::vector<std::string> inventory;
  std::string after, up_to;
  std::set<std::string> referenced;        // at the same time
  std::vector<api::CondemnedBlob> listed;  // before
  // What the Job had on its list. What of it is there (again), a save has written meanwhile, so it
  // gets a new grace; else one sweep after the other would delete what savers write.
  std::set<std::string> handed;
  // A save that is under way may have found a blob that has gone meanwhile and count on it; so what
  // is gone stays listed until no save of this CompileCache is under way.
  bool saves_in_flight = false;
  size_t limit =
      2000;  // entries, since the list is part of an object; the rest waits for the next sweep
  WallTime now{};
};

std::vector<api::CondemnedBlob> condemn(const LedgerFacts& facts);

// How long a blob stays condemned before it may be deleted: what the settings say, and never less
// than an extraction may take.
inline std::chrono::milliseconds grace_of(std::chrono::milliseconds setting,
                                          const api::CompileCacheSpec& spec) {
  return std::max(setting, spec.load.timeout);
}

std::vector<std::string> deletable_digests(const std::vector<api::CondemnedBlob>& listed,
                                           const std::set<std::string>& referenced, WallTime now,
                                           std::chrono::milliseconds grace);

}  // namespace compilecache::controller
