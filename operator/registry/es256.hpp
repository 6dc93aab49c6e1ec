#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

// Signatures as JSON Web Tokens want them (RFC 7518, ES256), by OpenSSL.
//
//   const Result<std::string> signature = sign_es256(leaf.key, "header.payload");
//   const std::string text = base64url(*signature);  // 86 characters
//
// Pure; thread-safe.

namespace compilecache::controller {

// The 64 bytes r and s of a signature by ECDSA on P-256 with SHA-256. `key` is PEM; kInvalid when
// it is no such key.
Result<std::string> sign_es256(const std::string& key, std::string_view bytes);

// The certificate (PEM) as DER; kInvalid when it is none.
Result<std::string> certificate_der(const std::string& pem);

// Base64 with '-' and '_', without padding (RFC 4648, 5).
std::string base64url(std::string_view bytes);

}  // namespace compilecache::controller
