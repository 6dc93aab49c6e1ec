#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "agent/sweep/trust_gate.hpp"
#include "api/agent_api.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

struct CopyRules {
  const TrustGate& trust;                // which archives may be taken
  std::set<api::ArchiveKey> known = {};  // of archives that are here already
  // Reports an archive that is here now to the operator, and returns whether the operator wants it.
  std::function<Result<bool>(api::FoundArchive)> tell;
  std::function<bool()> in_time;  // whether another archive may be begun
};

struct CopiedArchives {
  int64_t there = 0;     // archives of the old store that this one has now
  int64_t left_out = 0;  // that the old store has lost, or the operator does not want
  std::string error;     // why not all the others; empty: they are here
};

// Copies the archives of one store into another. One that fails hides no other: the error names
// those that failed and those that nobody vouches for, which another attempt may copy. It ends
// early if the operator takes no more. Copies made by then stay and are found by the next
// attempt. Of an archive that was saved several times the newest save that may be taken is.
CopiedArchives copy_archives(store::Store& from, store::Store& to, const CopyRules& rules);

}  // namespace compilecache::agent
