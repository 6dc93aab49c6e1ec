#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "kube/cancellation.hpp"
#include "kube/client.hpp"
#include "operator/certificates/certificate_source.hpp"

// Keeps our certificates in a Secret of the operator's namespace, shared by all replicas. The first
// replica makes them. The leader rotates them and keeps the caBundle of the webhook's configuration
// right. Every replica serves the Secret's content.
//
//   CertificateKeeper keeper(client, {.ns = ns}, [&] { return elector.is_leader(); });
//
// A rotation writes the Secret first, then caBundle in the same round. A new authority must have
// been in caBundle for RotationPolicy::ca_min_trusted before a certificate signed by it is served;
// so it is not used while caBundle cannot be written.
//
// Running pods trust the authority that they were created with and no other. A Secret that is
// deleted or damaged while a replica runs is therefore written again with what is served. A new
// authority is made where no replica has a usable one.

namespace compilecache::controller {

struct CertificateKeeperOptions {
  std::string ns;
  std::string secret = "compilecache-certificates";
  std::string webhook_configuration = "compilecache";
  RotationPolicy policy;
};

class CertificateKeeper : public CertificateSource {
 public:
  CertificateKeeper(kube::Client client, CertificateKeeperOptions options,
                    std::function<bool()> is_leader, const Clock& clock = SystemClock::instance());
  ~CertificateKeeper() override;
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  void on_change(Handler handler) override;
  // Reads the Secret or makes it.
  Status prepare() override;
  void start() override;
  void stop() override;
  Status round() override;
  [[nodiscard]] ServedCertificate served() const override;
  // True once caBundle has had our authorities, or when our webhook has no configuration.
  [[nodiscard]] bool trusted() const override { return trusted_; }

  // All that the Secret holds. Call it after prepare().
  [[nodiscard]] Certificates current() const;

 private:
  [[nodiscard]] bool is_usable(const Certificates& certificates) const;
  [[nodiscard]] Result<Certificates> kept_or_made() const;
  Result<nlohmann::json> read_or_make_secret();
  Status rotate_as_leader(nlohmann::json secret, bool bundle_is_right);
  Result<nlohmann::json> due_bundle_patch();
  Status keep_bundle();
  Status look_at_bundle();
  void publish_usable(const nlohmann::json& secret);
  void publish(const Certificates& certificates);
  void run();

  const kube::Client client_;
  const CertificateKeeperOptions options_;
  const std::vector<std::string> names_;
  const std::function<bool()> is_leader_;
  const Clock& clock_;
  std::vector<Handler> handlers_;
  Mutex round_;  // one round at a time
  mutable Mutex mutex_;
  std::optional<Certificates> current_ GUARDED_BY(mutex_);
  std::atomic<bool> trusted_{false};
  kube::Cancellation stop_;
  std::thread thread_;
};

// The JSON Patch that gives each of our webhooks in the configuration this caBundle (PEM); empty
// when they have it. Others in the same configuration are left alone. Pure.
nlohmann::json bundle_patch(const nlohmann::json& configuration,
                            const std::string& service_namespace, const std::string& bundle);

}  // namespace compilecache::controller
