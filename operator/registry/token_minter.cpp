#include "operator/registry/token_minter.hpp"

#include <utility>

namespace compilecache::controller {

TokenMinter::TokenMinter(const Clock& clock, Random random, AuthorityPolicy policy)
    : clock_(clock), random_(std::move(random)), policy_(policy) {}

Status TokenMinter::use(const TokenAuthority& authority) {
  const MutexLock lock(mutex_);
  const WallTime now = clock_.wall();
  if (!needs_leaf(leaf_, authority, policy_, now)) return {};
  auto leaf = make_token_leaf(authority, policy_, now);
  if (!leaf) return unexpected(leaf.error());
  leaf_ = std::move(*leaf);
  return {};
}

Result<MintedToken> TokenMinter::mint(const std::string& subject,
                                      std::vector<TokenAccess> access) const {
  KeyPair leaf;
  {
    const MutexLock lock(mutex_);
    leaf = leaf_;
  }
  if (leaf.empty()) {
    return fail(ErrorCode::kUnavailable,
                "minting a token for the registry: its authority is not there yet; try again");
  }
  const WallTime now = clock_.wall();
  auto token = sign_token({.subject = subject,
                           .id = random_id(random_) + random_id(random_),
                           .issued = now,
                           .access = std::move(access)},
                          leaf);
  if (!token) return unexpected(token.error());
  return MintedToken{std::move(*token), now, kTokenLife};
}

}  // namespace compilecache::controller
