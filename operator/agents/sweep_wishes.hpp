#pragma once

#include <functional>
#include <string>

#include "operator/agents/caller.hpp"
#include "operator/archives/archive_registry.hpp"
#include "operator/cluster/cluster_view.hpp"

// What agents say of a store that a sweep Job has to look after: archives that are not what they
// should be, folders that are not as a Job leaves them.
//
//   SweepWishes wishes(view, registry, sweep_wanted);
//   wishes.distrust(caller, "transformer-3f9a1c04b2", digest);
//
// Thread-safe; distrust() blocks on the API server.

namespace compilecache::controller {

class SweepWishes {
 public:
  // A sweep of that CompileCache is wanted soon.
  using Wanted = std::function<void(const std::string& ns, const std::string& cache)>;

  SweepWishes(const ClusterView& view, ArchiveRegistry& registry, Wanted wanted);

  // A sweep of the caller's CompileCache.
  void want(const Caller& caller) const;
  // The same where `reason`, an agent's word, says that a Job would fix it.
  void want_if_it_helps(const Caller& caller, const std::string& reason) const;
  // That archive, and each other one that holds the blob, is handed out no more at once; a sweep
  // Job will read it. Nothing happens where the archive is not of the caller's CompileCache.
  void distrust(const Caller& caller, const std::string& archive, const std::string& digest) const;

 private:
  const ClusterView& view_;
  ArchiveRegistry& registry_;
  const Wanted wanted_;
};

}  // namespace compilecache::controller
