#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/p256.hpp"
#include "store/trust/signature.hpp"

namespace compilecache::store {

// The keys that vouch for external archives: spec.trust.publicKeys. Pure;
// thread-safe.
//
//   const auto keys = TrustedKeys::parse(public_keys);
//   if (keys && keys->vouch_for(digest, *signatures)) take(digest);
class TrustedKeys {
 public:
  // kInvalid, naming the first that is none. None at all vouch for nothing.
  static Result<TrustedKeys> parse(const std::vector<std::string>& pems);

  // Whether one of these keys has signed one of these messages, and that is about this manifest.
  [[nodiscard]] bool vouch_for(const std::string& digest,
                               const std::vector<Signature>& signatures) const;

 private:
  explicit TrustedKeys(std::vector<P256PublicKey> keys) : keys_(std::move(keys)) {}

  std::vector<P256PublicKey> keys_;
};

}  // namespace compilecache::store
