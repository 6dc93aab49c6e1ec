#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "base/error.hpp"
#include "store/index.hpp"
#include "store/store.hpp"
#include "store/trust/trusted_keys.hpp"

namespace compilecache::agent {

// Which external archives may be taken: all, if spec.trust names no keys. Otherwise those that one
// of the keys vouches for, by a signature that stands beside the archive in the store it comes
// from.
//
//   const auto gate = TrustGate::of(config.sweep.trusted_keys);
//   const auto may = gate->lets_in(source, digest);
//   if (may && may->let_in) copy(digest);
class TrustGate {
 public:
  // kInvalid: a key cannot be read; nothing may be taken then.
  static Result<TrustGate> of(const std::vector<std::string>& public_keys);

  struct Verdict {
    bool let_in = false;
    // The signature that vouches for it, for the operator to look at; none where there are no keys.
    std::vector<api::FoundSignature> signatures;
  };
  // Errors are the store's. A store that has no signatures, as a volume, lets nothing in where
  // there are keys.
  Result<Verdict> lets_in(store::Store& from, const std::string& manifest) const;

  struct LetIn {
    const store::IndexEntry* save = nullptr;  // none
    std::vector<api::FoundSignature> signatures;
  };
  // The first of these that may be taken. A pusher can put a save beside any that is
  // signed, without a signature or with one that cannot be read: it hides no later one. An error
  // where none may be taken and the signatures of some cannot be read.
  Result<LetIn> first_let_in(store::Store& from, std::span<const store::IndexEntry> saves) const;

 private:
  TrustGate() = default;

  std::optional<store::TrustedKeys> keys_;  // nothing: all are let in
};

}  // namespace compilecache::agent
