#pragma once

#include <string>
#include <vector>

// What a pod of ours is granted in the installation's own registry. Who it is and what it may was
// found out before, from its token and from the cluster; what it asks for can only make it less.
//
//   const TokenGrant grant = grant_token({.push = request.push, .may_not_save = "mode_read_only"});
//   minter.mint(pod, {{own_repository("ml", "transformer"), grant.actions}});  // pull alone
//
// Pure.

namespace compilecache::controller {

struct TokenFacts {
  bool sweeper = false;      // a sweep Job's pod, which deletes what no head names
  bool push = false;         // it asks for it
  std::string may_not_save;  // why the pod's saves are never granted, one word; empty: they may be
  std::string over_quota;    // why nothing more may be kept, one word; empty: there is room
};

struct TokenGrant {
  std::vector<std::string> actions;
  std::string reason;  // why it may not push though it asked; empty: it may, or did not ask
};
TokenGrant grant_token(const TokenFacts& facts);

// The repository of a CompileCache, below the registry's root.
std::string own_repository(const std::string& ns, const std::string& cache);

}  // namespace compilecache::controller
