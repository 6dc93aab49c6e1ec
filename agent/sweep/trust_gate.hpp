#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "store/store.hpp"
#include "store/trust/trusted_keys.hpp"

namespace compilecache::agent {

// Which archives of elsewhere may be taken: all, where spec.trust names no keys; else those that
// one of the keys vouches for, by a signature that stands beside the archive in the store it comes
// from.
//
//   const auto gate = TrustGate::of(config.sweep.trusted_keys);
//   const auto may = gate->lets_in(source, digest);
//   if (may && *may) copy(digest);
class TrustGate {
 public:
  // kInvalid: a key cannot be read; nothing may be taken then.
  static Result<TrustGate> of(const std::vector<std::string>& public_keys);

  // Errors are the store's. A store that has no signatures, as a volume, lets nothing in where
  // there are keys.
  Result<bool> lets_in(store::Store& from, const std::string& manifest) const;

 private:
  TrustGate() = default;

  std::optional<store::TrustedKeys> keys_;  // nothing: all are let in
};

}  // namespace compilecache::agent
