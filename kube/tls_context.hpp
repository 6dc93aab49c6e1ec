#pragma once

#include <openssl/types.h>

#include <string>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/config.hpp"
#include "kube/credentials.hpp"

namespace compilecache::kube {

// Configures OpenSSL contexts, one for each new connection. Thread-safe.
class TlsContext {
 public:
  explicit TlsContext(const Config& config) : config_(config) {}

  // Sets the client certificate of later connections; refuses one that is no certificate or does
  // not fit its key.
  Status use(const Credentials& credentials);

  // TLS 1.2 or newer, only our certificate authority when there is one (its file is read again, so
  // that a new authority needs no restart), the client certificate. Options that fail are left out
  // and logged: the handshake then fails. Never throws, as the caller is inside a library that
  // would end the process.
  void apply(SSL_CTX* context) const noexcept;

 private:
  const Config config_;
  mutable Mutex mutex_;
  Credentials credentials_ GUARDED_BY(mutex_);
};

// Connections of the context are made only to a server whose certificate names the IP address. The
// HTTP library compares the names with the Host header, brackets and port included, which is in no
// certificate. OpenSSL does it instead, and SNI, which has no addresses, is left out.
void prove_address(SSL_CTX* context, const std::string& address) noexcept;

}  // namespace compilecache::kube
