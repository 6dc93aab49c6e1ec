#include "agent/sweep/trust_gate.hpp"

#include "store/signatures.hpp"

namespace compilecache::agent {

Result<TrustGate> TrustGate::of(const std::vector<std::string>& public_keys) {
  TrustGate gate;
  if (public_keys.empty()) return gate;
  auto keys = store::TrustedKeys::parse(public_keys);
  if (!keys) return unexpected(keys.error());
  gate.keys_ = std::move(*keys);
  return gate;
}

Result<bool> TrustGate::lets_in(store::Store& from, const std::string& manifest) const {
  if (!keys_) return true;
  store::Signatures* signatures = from.signatures();
  if (signatures == nullptr) return false;
  const auto found = signatures->of(manifest);
  if (!found) {
    return unexpected(
        found.error().with("looking for who has signed " + manifest + " in " + from.describe()));
  }
  return keys_->vouch_for(manifest, *found);
}

}  // namespace compilecache::agent
