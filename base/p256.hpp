#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"

// ECDSA with P-256 and SHA-256, which is what tokens and cosign's signatures are made with. Keys
// are PEM, signatures DER. Thread-safe.

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace compilecache {

// `key`: PKCS#8 or SEC1, not encrypted. kInvalid: it is no such key.
Result<std::string> sign_p256(const std::string& key, std::string_view bytes);

// One who may have signed something.
//
//   const auto key = P256PublicKey::parse(pem);
//   if (key && key->has_signed(message, signature)) return true;
class P256PublicKey {
 public:
  // As `cosign public-key` and `openssl pkey -pubout` write it. kInvalid: it is no such key.
  static Result<P256PublicKey> parse(const std::string& pem);

  // False for what is no signature at all, too.
  [[nodiscard]] bool has_signed(std::string_view bytes, std::string_view signature) const;

 private:
  explicit P256PublicKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}

  std::shared_ptr<evp_pkey_st> key_;  // never changed
};

}  // namespace compilecache
