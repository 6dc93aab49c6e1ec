#include "store/trust/trusted_keys.hpp"

#include <algorithm>

namespace compilecache::store {

Result<TrustedKeys> TrustedKeys::parse(const std::vector<std::string>& pems) {
  std::vector<P256PublicKey> keys;
  for (size_t i = 0; i < pems.size(); ++i) {
    auto key = P256PublicKey::parse(pems[i]);
    if (!key) {
      return unexpected(key.error().with("spec.trust.publicKeys[" + std::to_string(i) + "]"));
    }
    keys.push_back(std::move(*key));
  }
  return TrustedKeys(std::move(keys));
}

bool TrustedKeys::vouch_for(const std::string& digest,
                            const std::vector<Signature>& signatures) const {
  return std::any_of(signatures.begin(), signatures.end(), [&](const Signature& one) {
    return one.subject == digest &&
           std::any_of(keys_.begin(), keys_.end(), [&](const P256PublicKey& key) {
             return key.has_signed(one.message, one.signature);
           });
  });
}

}  // namespace compilecache::store
