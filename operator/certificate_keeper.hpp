#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "operator/certificates.hpp"

// Keeps our certificates in a Secret of the operator's namespace, shared by all replicas: whoever
// comes first makes them, the leader rotates them and keeps the caBundle of the webhook's
// configuration right, every replica serves what the Secret holds.
//
//   CertificateKeeper keeper(client, {.ns = ns}, [&] { return elector.is_leader(); });
//   keeper.on_change([&](const Certificates& c) { server->set_certificate(c.leaf.certificate,
//   c.leaf.key); }); if (auto ready = keeper.prepare(); !ready) return report(ready.error());
//   keeper.start();
//
// Order of a rotation: the Secret first, then caBundle in the same round. A new authority is in
// caBundle for RotationPolicy::ca_min_trusted at least before a certificate of its own is served.

namespace compilecache::controller {

struct CertificateKeeperOptions {
  std::string ns;
  std::string secret = "compilecache-certificates";
  std::string webhook_configuration = "compilecache";
  RotationPolicy policy;
  std::chrono::milliseconds poll{10'000};
};

class CertificateKeeper {
 public:
  CertificateKeeper(kube::Client client, CertificateKeeperOptions options,
                    std::function<bool()> is_leader, const Clock& clock = SystemClock::instance());
  ~CertificateKeeper();
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  // Called with new certificates, in the thread of prepare() or of the keeper. Set before
  // prepare().
  void on_change(std::function<void(const Certificates&)> handler);

  // Reads the Secret or makes it; afterwards current() has certificates.
  Status prepare();
  // Looks again every `poll`, in a thread of its own, and once at once.
  void start();
  void stop();
  // Looks again now: we have just become leader, or a test wants it.
  Status round();

  [[nodiscard]] Certificates current() const;

 private:
  Result<nlohmann::json> read_or_make_secret();
  Status rotate_as_leader(nlohmann::json secret);
  Status keep_bundle();
  void publish(const Certificates& certificates);
  void run();

  const kube::Client client_;
  const CertificateKeeperOptions options_;
  const std::vector<std::string> names_;
  const std::function<bool()> is_leader_;
  const Clock& clock_;
  std::vector<std::function<void(const Certificates&)>> handlers_;
  std::mutex round_;  // one round at a time
  mutable std::mutex mutex_;
  std::optional<Certificates> current_;
  kube::Cancellation stop_;
  std::thread thread_;
};

// The JSON Patch that gives every webhook of ours in the configuration this caBundle (PEM); empty
// when they have it. Others in the same configuration are left alone. Pure.
nlohmann::json bundle_patch(const nlohmann::json& configuration,
                            const std::string& service_namespace, const std::string& bundle);

}  // namespace compilecache::controller
