#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/certificates/certificates.hpp"

// The authority of the registry's tokens and the rules of its rotation. It signs nothing but the
// leaves below, which sign tokens: a registry takes whatever its authority has signed for a signer,
// so the authority of our servers cannot be this one.
//
//   auto authority = *make_token_authority({}, now);
//   ...
//   while (auto step = next_authority_step(authority, {}, registry_knows, now)) {
//     authority = *rotate_authority(authority, *step, {}, now);  // then store it
//   }
//   auto leaf = make_token_leaf(authority, {}, now);  // never stored
//
// A registry reads its authorities once, when it starts. So the next one is added, the registry is
// started anew, and only then does the next one sign; the one before is dropped when no token of
// its leaves can be good any more. Nothing here reads a clock or does I/O. Thread-safe.

namespace compilecache::controller {

struct TokenAuthority {
  KeyPair ca;               // the one that signs
  KeyPair next_ca;          // empty, or known to the registry, or about to be, and to sign later
  std::string previous_ca;  // PEM, empty, or still accepted
  WallTime changed{};       // when the last step was taken

  // What the registry accepts (rootcertbundle), PEM. The same before and after kSwitch.
  [[nodiscard]] std::string bundle() const;
};

struct AuthorityPolicy {
  using Hours = std::chrono::hours;
  std::chrono::seconds ca_life = Hours(24 * 3650);
  std::chrono::seconds next_before = Hours(24 * 90);  // left when the next one is added
  // Replicas read the Secret every few seconds, and mint with a leaf of the old one until then.
  std::chrono::seconds previous_stays = Hours(1);
  std::chrono::seconds leaf_life = Hours(24);
  std::chrono::seconds leaf_renew_before = Hours(12);
  // Certificates are valid from this long before now, for clocks that are behind ours.
  std::chrono::seconds backdate = Hours(1);
};

enum class AuthorityStep {
  kStartAnew,     // unusable: another one; its certificate, if it can be read, is still accepted
  kAddNext,       // a next one for the registry to know
  kSwitch,        // it signs, the old one is still accepted
  kDropPrevious,  // the old one is accepted no more
};
const char* to_string(AuthorityStep step);

Result<TokenAuthority> make_token_authority(const AuthorityPolicy& policy, WallTime now);

// Whether it can sign, and be told to a registry.
bool is_usable(const TokenAuthority& authority, WallTime now);

// What is due now, one step at a time; nothing when all is well. `registry_knows`: the registry
// that runs was started with bundle().
std::optional<AuthorityStep> next_authority_step(const TokenAuthority& authority,
                                                 const AuthorityPolicy& policy, bool registry_knows,
                                                 WallTime now);
Result<TokenAuthority> rotate_authority(const TokenAuthority& authority, AuthorityStep step,
                                        const AuthorityPolicy& policy, WallTime now);

// A new key and its certificate, for signing tokens alone. For this process' memory. kInvalid: the
// authority is not usable.
Result<KeyPair> make_token_leaf(const TokenAuthority& authority, const AuthorityPolicy& policy,
                                WallTime now);
// Whether another leaf is needed: there is none, it ends soon, another authority signs now.
bool needs_leaf(const KeyPair& leaf, const TokenAuthority& authority, const AuthorityPolicy& policy,
                WallTime now);

// The entries of the authority's Secret, not encoded.
std::map<std::string, std::string> authority_entries(const TokenAuthority& authority);
// Missing entries become empty, and so do other certificates than the one that signs where they
// cannot be read; without the one that signs next_authority_step() returns kStartAnew.
TokenAuthority from_authority_entries(const std::map<std::string, std::string>& entries);

}  // namespace compilecache::controller
