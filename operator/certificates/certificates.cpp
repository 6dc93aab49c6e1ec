#include "operator/certificates/certificates.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "operator/certificates/x509.hpp"

namespace compilecache::controller {
namespace {

constexpr char kAuthorityName[] = "compilecache-operator authority";

Result<KeyPair> make_ca(const RotationPolicy& policy, WallTime now) {
  return issue_certificate({kAuthorityName, {}, now - policy.backdate, now + policy.ca_life}, {});
}

Result<KeyPair> make_leaf(const KeyPair& ca, const std::vector<std::string>& names,
                          const RotationPolicy& policy, WallTime now) {
  return issue_certificate({names.front(), names, now - policy.backdate, now + policy.leaf_life},
                           ca);
}

// Time left of a certificate; nothing when it cannot be read or is over.
std::optional<Duration> left(const std::string& pem, WallTime now) {
  auto facts = read_certificate(pem);
  if (!facts || facts->not_after <= now) return std::nullopt;
  return facts->not_after - now;
}

bool has_names(const std::string& pem, const std::vector<std::string>& names) {
  auto facts = read_certificate(pem);
  return facts && std::all_of(names.begin(), names.end(), [&](const std::string& name) {
           return std::find(facts->dns_names.begin(), facts->dns_names.end(), name) !=
                  facts->dns_names.end();
         });
}

bool usable_ca(const KeyPair& ca, WallTime now) {
  return left(ca.certificate, now) && belongs_together(ca, ca.certificate);
}

// How long the next authority has been trusted, by the dates of its certificate.
Duration trusted_for(const KeyPair& ca, const RotationPolicy& policy, WallTime now) {
  auto facts = read_certificate(ca.certificate);
  return facts ? now - (facts->not_before + policy.backdate) : Duration::zero();
}

Result<Certificates> with_new_leaf(Certificates certificates, const std::vector<std::string>& names,
                                   const RotationPolicy& policy, WallTime now) {
  auto leaf = make_leaf(certificates.ca, names, policy, now);
  if (!leaf) return unexpected(leaf.error());
  certificates.leaf = std::move(*leaf);
  return certificates;
}

}  // namespace

std::string Certificates::bundle() const {
  return ca.certificate + next_ca.certificate + previous_ca;
}

RotationPolicy RotationPolicy::of_lives(std::chrono::seconds ca_life,
                                        std::chrono::seconds leaf_life) {
  RotationPolicy policy;
  policy.ca_life = ca_life;
  policy.leaf_life = leaf_life;
  // A certificate of the old authority must not outlast it.
  policy.ca_switch_before = std::max(ca_life / 40, leaf_life);
  policy.ca_next_before = 4 * policy.ca_switch_before;
  policy.ca_min_trusted = std::min<std::chrono::seconds>(policy.ca_min_trusted, ca_life / 32);
  policy.leaf_renew_before = leaf_life / 3;
  return policy;
}

std::chrono::milliseconds RotationPolicy::poll() const {
  using std::chrono::milliseconds;
  return std::min(milliseconds(10'000), milliseconds(leaf_life) / 20);
}

const char* to_string(RotationStep step) {
  switch (step) {
    case RotationStep::kStartAnew:
      return "new authority and certificate";
    case RotationStep::kAddNextCa:
      return "next authority made known";
    case RotationStep::kSwitchCa:
      return "next authority signs";
    case RotationStep::kDropPrevious:
      return "previous authority dropped";
    case RotationStep::kRenewLeaf:
      return "certificate renewed";
  }
  return "unknown";
}

std::vector<std::string> service_names(const std::string& ns) {
  return {std::string(api::kWebhookService) + "." + ns + ".svc",
          std::string(api::kAgentService) + "." + ns + ".svc"};
}

Result<Certificates> make_certificates(const std::vector<std::string>& names,
                                       const RotationPolicy& policy, WallTime now) {
  auto ca = make_ca(policy, now);
  if (!ca) return unexpected(ca.error());
  return with_new_leaf(Certificates{.ca = std::move(*ca)}, names, policy, now);
}

std::optional<RotationStep> next_rotation(const Certificates& certificates,
                                          const std::vector<std::string>& names,
                                          const RotationPolicy& policy, WallTime now) {
  if (!usable_ca(certificates.ca, now)) return RotationStep::kStartAnew;
  const Duration ca_left = *left(certificates.ca.certificate, now);
  const bool next_usable = !certificates.next_ca.empty() && usable_ca(certificates.next_ca, now);
  if (ca_left < policy.ca_next_before && !next_usable) return RotationStep::kAddNextCa;
  if (ca_left < policy.ca_switch_before && next_usable &&
      trusted_for(certificates.next_ca, policy, now) >= policy.ca_min_trusted) {
    return RotationStep::kSwitchCa;
  }
  if (!certificates.previous_ca.empty() && !left(certificates.previous_ca, now)) {
    return RotationStep::kDropPrevious;
  }
  const auto leaf_left = left(certificates.leaf.certificate, now);
  if (!leaf_left || *leaf_left < policy.leaf_renew_before ||
      !has_names(certificates.leaf.certificate, names) ||
      !belongs_together(certificates.leaf, certificates.ca.certificate)) {
    return RotationStep::kRenewLeaf;
  }
  return std::nullopt;
}

Result<Certificates> rotate(const Certificates& certificates, RotationStep step,
                            const std::vector<std::string>& names, const RotationPolicy& policy,
                            WallTime now) {
  Certificates next = certificates;
  switch (step) {
    case RotationStep::kStartAnew:
      return make_certificates(names, policy, now);
    case RotationStep::kAddNextCa: {
      auto ca = make_ca(policy, now);
      if (!ca) return unexpected(ca.error());
      next.next_ca = std::move(*ca);
      return next;
    }
    case RotationStep::kSwitchCa:
      next.previous_ca = certificates.ca.certificate;
      next.ca = certificates.next_ca;
      next.next_ca = {};
      return with_new_leaf(std::move(next), names, policy, now);
    case RotationStep::kDropPrevious:
      next.previous_ca.clear();
      return next;
    case RotationStep::kRenewLeaf:
      return with_new_leaf(std::move(next), names, policy, now);
  }
  return fail(ErrorCode::kInternal, "rotating certificates: unknown step");
}

std::map<std::string, std::string> secret_entries(const Certificates& certificates) {
  std::map<std::string, std::string> entries{{"ca.crt", certificates.ca.certificate},
                                             {"ca.key", certificates.ca.key},
                                             {"tls.crt", certificates.leaf.certificate},
                                             {"tls.key", certificates.leaf.key}};
  if (!certificates.next_ca.empty()) {
    entries["next-ca.crt"] = certificates.next_ca.certificate;
    entries["next-ca.key"] = certificates.next_ca.key;
  }
  if (!certificates.previous_ca.empty()) entries["previous-ca.crt"] = certificates.previous_ca;
  return entries;
}

Certificates from_secret_entries(const std::map<std::string, std::string>& entries) {
  auto entry = [&](const char* name) {
    auto found = entries.find(name);
    return found == entries.end() ? std::string() : found->second;
  };
  return {{entry("ca.crt"), entry("ca.key")},
          {entry("next-ca.crt"), entry("next-ca.key")},
          entry("previous-ca.crt"),
          {entry("tls.crt"), entry("tls.key")}};
}

}  // namespace compilecache::controller
