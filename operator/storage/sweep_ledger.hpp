#pragma once

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Decides which blobs of a store may be deleted, in two steps, so that no commit can name a blob
// that is being deleted.
//
// A blob that no head reaches is condemned: put on a list with the time when that was first seen.
// The list is in the CompileCache's status (status.condemned). A starting Job gets the blobs that
// have been on it for a grace, which outlasts any extraction by a loader that was given a head
// before. They are still unreferenced, and on the list in the API server, so that the next
// leader knows them too. From then on sweep_guard.hpp refuses commits that name them.
//
//   Job begins:  deletable_digests(listed in the status, referenced, now, grace)
//   Job ends:    listed = condemn({inventory, referenced, listed, ...})
//
// Pure; safe from any thread. Times are RFC 3339; one that cannot be read counts as now.

namespace compilecache::controller {

// The digests that heads and previous heads need.
std::set<std::string> referenced_digests(const std::vector<api::CompileCacheArchive>& archives);

struct LedgerFacts {
  // The Job's inventory at its end of the digests greater than `after`, up to `up_to` (empty: to
  // the last). Listed digests outside of that range stay as they are.
  std::vector<std::string> inventory;
  std::set<std::string> kept;  // likewise there, but never to be deleted
  std::string after, up_to;
  std::set<std::string> referenced;        // at the same time
  std::vector<api::CondemnedBlob> listed;  // before
  // The Job's list. What of it is there (again) a save has written meanwhile, so it gets a new
  // grace; else one sweep after the other would delete what savers write.
  std::set<std::string> handed;
  // A save under way may have found a blob before it was deleted and rely on it, so deleted blobs
  // stay listed until no save of this CompileCache is under way.
  bool saves_in_flight = false;
  size_t limit =
      2000;  // entries, since the list is part of an object; the rest waits for the next sweep
  WallTime now{};
};

std::vector<api::CondemnedBlob> condemn(const LedgerFacts& facts);

// How long a blob stays condemned before it may be deleted: the setting, but never less than an
// extraction may take.
inline std::chrono::milliseconds grace_of(std::chrono::milliseconds setting,
                                          const api::CompileCacheSpec& spec) {
  return std::max(setting, spec.load.timeout);
}

std::vector<std::string> deletable_digests(const std::vector<api::CondemnedBlob>& listed,
                                           const std::set<std::string>& referenced, WallTime now,
                                           std::chrono::milliseconds grace);

}  // namespace compilecache::controller
