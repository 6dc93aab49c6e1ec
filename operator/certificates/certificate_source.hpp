#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"
#include "operator/certificates/certificates.hpp"

// The source of the certificate that the webhook and the agent API serve: our own authority
// (certificate_keeper.hpp), or files that somebody else renews (certificate_files.hpp).
//
//   source.on_change([&](const ServedCertificate& c) {
//     server->set_certificate(c.leaf.certificate, c.leaf.key);
//   });
//   if (auto ready = source.prepare(); !ready) return report(ready.error());
//   source.start();

namespace compilecache::controller {

struct ServedCertificate {
  KeyPair leaf;        // with intermediates after it
  std::string bundle;  // PEM: the authorities that our callers must trust
  bool operator==(const ServedCertificate&) const = default;
};

// Thread-safe after prepare().
class CertificateSource {
 public:
  using Handler = std::function<void(const ServedCertificate&)>;

  virtual ~CertificateSource() = default;

  // Called with every new certificate, in the thread of prepare(), of round() or of the source. Set
  // before prepare().
  virtual void on_change(Handler handler) = 0;
  // Gets the first certificate.
  virtual Status prepare() = 0;
  // Checks for changes regularly, in a thread of its own.
  virtual void start() = 0;
  virtual void stop() = 0;
  // Checks now: we have just become leader, or a test wants it.
  virtual Status round() = 0;
  [[nodiscard]] virtual ServedCertificate served() const = 0;
  // Whether API servers trust what is served, as far as we can see. Until then no replica is ready,
  // since no pod could be injected.
  [[nodiscard]] virtual bool trusted() const = 0;
};

}  // namespace compilecache::controller
