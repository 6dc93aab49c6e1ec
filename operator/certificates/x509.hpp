#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/certificates/certificates.hpp"

// Certificates by OpenSSL in a few functions. Nothing here reads a clock or does I/O. Thread-safe.

namespace compilecache::controller {

struct CertificateRequest {
  std::string common_name;
  std::vector<std::string> dns_names;  // of a server; empty: an authority
  WallTime not_before{}, not_after{};
  // Neither: what signs the registry's tokens. No server can show such a certificate.
  bool signs_tokens = false;
};

// Makes a certificate with a new key, signed by `issuer`, or by itself when that is empty.
Result<KeyPair> issue_certificate(const CertificateRequest& request, const KeyPair& issuer);

// Whether `key` belongs to `certificate`.
bool has_key(const KeyPair& pair);

// Whether the text is PEM with one certificate at least, and none that is broken.
bool is_certificate_list(const std::string& pem);

// Whether `key` belongs to `certificate` and `issuer` (PEM) signed it.
bool belongs_together(const KeyPair& pair, const std::string& issuer);

}  // namespace compilecache::controller
