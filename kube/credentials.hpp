#pragma once

#include <memory>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/config.hpp"

// The credentials that we present to the API server, kept fresh.

namespace compilecache::kube {

struct Credentials {
  std::string bearer_token;        // may be empty
  std::string client_certificate;  // PEM; may be empty
  std::string client_key;          // PEM
  bool operator==(const Credentials&) const = default;
};

// Thread-safe.
class CredentialSource {
 public:
  virtual ~CredentialSource() = default;
  // The credentials to use now. Cheap unless something has to be read again. A token file is read
  // again each minute and kept when that fails; a plugin is run again shortly before what it gave
  // expires. Source of both: client-go's transport/token_source.go and plugin/pkg/client/auth/exec.
  virtual Result<Credentials> current() = 0;
  // The server answered 401 to these credentials: the next current() fetches new ones, where that
  // is possible.
  virtual void rejected(const Credentials& credentials) = 0;
};

std::unique_ptr<CredentialSource> make_credential_source(
    const Config& config, const Clock& clock = SystemClock::instance());

struct ExecCredential {
  Credentials credentials;
  std::string expiration;  // RFC 3339; empty: as long as the process lives
};
// Runs the plugin and reads its ExecCredential; at most 60 s.
Result<ExecCredential> run_exec_plugin(const ExecPlugin& plugin, const Config& config);

// The text of a PEM source; empty for an empty source.
Result<std::string> read_pem(const PemSource& source, const std::string& what);

}  // namespace compilecache::kube
