#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "base/clock.hpp"

// Which blobs of a store may be deleted, in two steps, so that no commit can name a blob that goes.
//
// A blob that no head reaches is put on a list with the time when it was first seen so. From half
// of the grace on it is condemned: a commit that names it is refused. From the whole grace on a Job
// that starts may delete it, if it is still unreferenced then. The half between the two is longer
// than any commit can be under way, also one by a leader that was deposed. The list is in the
// CompileCache's status (status.condemned), and only what is in the status as the API server has it
// may be deleted, so that the next leader knows it too.
//
//   Job begins:  deletable_digests(listed in the status, referenced, now, grace)
//   commit:      condemned_digests(listed, now, grace) must not contain one of its blobs
//   Job ends:    listed = condemn({inventory, referenced, listed, ...})
//
// Pure; safe from any thread. Times are RFC 3339; one that cannot be read counts as now.

namespace compilecache::controller {

// What heads and the heads before them need.
std::set<std::string> referenced_digests(const std::vector<api::CompileCacheArchive>& archives);

struct LedgerFacts {
  std::vector<std::string> inventory;      // what the Job found when it was done
  std::set<std::string> referenced;        // at the same time
  std::vector<api::CondemnedBlob> listed;  // before
  // A save that is under way may have found a blob that has gone meanwhile and count on it; so what
  // is gone stays listed until no save of this CompileCache is under way.
  bool saves_in_flight = false;
  size_t limit =
      2000;  // entries, since the list is part of an object; the rest waits for the next sweep
  WallTime now{};
};

std::vector<api::CondemnedBlob> condemn(const LedgerFacts& facts);

std::set<std::string> condemned_digests(const std::vector<api::CondemnedBlob>& listed, WallTime now,
                                        std::chrono::milliseconds grace);

std::vector<std::string> deletable_digests(const std::vector<api::CondemnedBlob>& listed,
                                           const std::set<std::string>& referenced, WallTime now,
                                           std::chrono::milliseconds grace);

}  // namespace compilecache::controller
