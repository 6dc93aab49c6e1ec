#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"

// Our own certificate authority and the certificate that the webhook and the agent API serve, by
// OpenSSL (ECDSA P-256), and the rules of their rotation.
//
//   auto made = make_certificates(names, {}, now);
//   ...
//   while (auto step = next_rotation(certificates, names, {}, now)) {
//     certificates = *rotate(certificates, *step, names, {}, now);    // then store it
//   }
//
// A new authority is distributed long before it signs, since API servers and running pods trust
// only what was in the bundle when they got it. Nothing here reads a clock or does I/O.
// Thread-safe.

namespace compilecache::controller {

struct KeyPair {
  std::string certificate;  // PEM
  std::string key;          // PEM
  [[nodiscard]] bool empty() const { return certificate.empty(); }
  bool operator==(const KeyPair&) const = default;
};

struct Certificates {
  KeyPair ca;               // the one that signs
  KeyPair next_ca;          // empty, or trusted already and to sign later
  std::string previous_ca;  // PEM, empty, or still trusted
  KeyPair leaf;             // signed by `ca`, for all names

  // The caBundle in PEM: all authorities that our callers must trust.
  [[nodiscard]] std::string bundle() const;
};

struct RotationPolicy {
  using Hours = std::chrono::hours;
  // A running pod trusts what was in the bundle when it was made, so authorities live long and
  // overlap long. Sources of the lives: cert-controller, vault-k8s (ten years; leaves of days to a
  // year).
  std::chrono::seconds ca_life = Hours(24 * 3650);
  std::chrono::seconds ca_next_before = Hours(24 * 365);           // left when the next one is made
  std::chrono::seconds ca_switch_before = Hours(24 * 90);          // left when the next one signs
  std::chrono::seconds ca_min_trusted = std::chrono::minutes(10);  // between those two at least
  std::chrono::seconds leaf_life = Hours(24 * 90);
  std::chrono::seconds leaf_renew_before = Hours(24 * 30);
  // Certificates are valid from this long before now, for clocks that are behind this one.
  std::chrono::seconds backdate = Hours(1);

  // The policy for other lifetimes, in the same proportions; the leaf's is at most an eighth of the
  // authority's.
  static RotationPolicy of_lives(std::chrono::seconds ca_life, std::chrono::seconds leaf_life);
  // How often to check, so that a short lifetime is not missed: every ten seconds, or more often.
  [[nodiscard]] std::chrono::milliseconds poll() const;
};

enum class RotationStep {
  kStartAnew,     // unusable: nothing can be kept
  kAddNextCa,     // trust a new authority beside the old one
  kSwitchCa,      // the new one signs, the old one is still trusted
  kDropPrevious,  // the old one has expired
  kRenewLeaf,
};
const char* to_string(RotationStep step);

// The DNS names of our Services: "compilecache-webhook.NS.svc", and the agent API's.
std::vector<std::string> service_names(const std::string& ns);

Result<Certificates> make_certificates(const std::vector<std::string>& names,
                                       const RotationPolicy& policy, WallTime now);

// The step that is due now, one at a time; nothing when all is well.
std::optional<RotationStep> next_rotation(const Certificates& certificates,
                                          const std::vector<std::string>& names,
                                          const RotationPolicy& policy, WallTime now);

Result<Certificates> rotate(const Certificates& certificates, RotationStep step,
                            const std::vector<std::string>& names, const RotationPolicy& policy,
                            WallTime now);

// The entries of the Secret, not encoded ("ca.crt" is the authority that signs, "tls.crt" and
// "tls.key" the leaf).
std::map<std::string, std::string> secret_entries(const Certificates& certificates);
// Missing entries become empty; next_rotation() then returns kStartAnew.
Certificates from_secret_entries(const std::map<std::string, std::string>& entries);

struct CertificateFacts {
  WallTime not_before{}, not_after{};
  std::vector<std::string> dns_names;
};
// Returns kInvalid when the text is not a certificate in PEM.
Result<CertificateFacts> read_certificate(const std::string& pem);

}  // namespace compilecache::controller
