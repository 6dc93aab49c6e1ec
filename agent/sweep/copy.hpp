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
  // Tells the operator of an archive that is here now, and says whether the operator wants it.
  std::function<Result<bool>(api::FoundArchive)> tell;
  std::function<bool()> in_time;  // whether another archive may be begun
};

struct CopiedArchives {
  int64_t there = 0;     // archives of the old store that this one has now
  int64_t left_out = 0;  // that the old store has lost, or the operator does not want
  std::string error;     // why not all the others; empty: they are here
};

// Copies the archives of one store into another. Ends with the first error that another attempt may
// mend; what is copied by then stays and is found by the next one. Archives that nobody vouches for
// are left out, and the error names them at the end: they may be signed later.
CopiedArchives copy_archives(store::Store& from, store::Store& to, const CopyRules& rules);

}  // namespace compilecache::agent
