#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "api/agent_api.hpp"
#include "store/store.hpp"

namespace compilecache::agent {

struct CopiedArchives {
  int64_t there = 0;  // archives of the old store that this one has now
  std::string error;  // why not all that can be read; empty: all
};

// Copies the archives of one store into another, except those whose keys are in `known`. Each is
// told when it is there; if telling fails, nothing more is copied. An archive that the old store
// has lost, in part or all of it, is logged and left out.
CopiedArchives copy_archives(store::Store& from, store::Store& to,
                             const std::set<api::ArchiveKey>& known,
                             const std::function<bool(api::FoundArchive)>& tell);

}  // namespace compilecache::agent
