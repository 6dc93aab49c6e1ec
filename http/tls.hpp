#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "http/message.hpp"

// OpenSSL contexts from PEM text; internal to this folder. TLS 1.2 is the least that is spoken.

namespace compilecache::http {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// Fails with kInvalid when chain or key cannot be read or do not belong together. With `client_ca`
// (PEM) clients are asked for a certificate. No handshake fails for lack of a good one; see
// client_certificate().
Result<TlsContext> server_tls(const std::string& chain_pem, const std::string& key_pem,
                              const std::string& client_ca = "");

// The certificate that the client presented in the handshake that is over.
ClientCertificate client_certificate(SSL* connection);

// Trusts the certificates of `ca_pem` and nothing else; kInvalid when there is none in it.
Result<TlsContext> client_tls(const std::string& ca_pem);

// Trusts what the machine trusts, and the certificates of `ca_pem` (may be empty) too. The
// machine's are those of SSL_CERT_FILE and SSL_CERT_DIR where these are set, else of the usual
// places. From a folder with hashed names OpenSSL takes the one that it needs; reading all of a
// file takes 50 ms.
Result<TlsContext> client_tls_of_system(const std::string& ca_pem);

}  // namespace compilecache::http
