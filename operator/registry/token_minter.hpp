#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "base/random.hpp"
#include "operator/certificates/certificates.hpp"
#include "operator/registry/token_authority.hpp"
#include "operator/registry/token_claims.hpp"

// Mints tokens for the installation's own registry, with a key that only this object has.
//
//   TokenMinter minter(clock, system_random());
//   if (auto ready = minter.use(authority); !ready) return unexpected(ready.error());
//   Result<MintedToken> token = minter.mint("ml/web-1", {{"ml/transformer", {"pull"}}});
//
// Who may have which is decided in registry_tokens.hpp. Thread-safe; the clock must outlive it.

namespace compilecache::controller {

struct MintedToken {
  std::string token;
  WallTime issued{};
  std::chrono::seconds life{};
};

class TokenMinter {
 public:
  TokenMinter(const Clock& clock, Random random, AuthorityPolicy policy = {});

  // Signs by a leaf of this authority from now on; makes one where the present one does not do.
  Status use(const TokenAuthority& authority);
  // kUnavailable before the first use().
  [[nodiscard]] Result<MintedToken> mint(const std::string& subject,
                                         std::vector<TokenAccess> access) const;

 private:
  const Clock& clock_;
  const Random random_;
  const AuthorityPolicy policy_;
  mutable Mutex mutex_;
  KeyPair leaf_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::controller
