#include "operator/registry/token_authority.hpp"

#include "base/time_format.hpp"
#include "operator/certificates/x509.hpp"

namespace compilecache::controller {
namespace {

constexpr char kAuthorityName[] = "compilecache-operator registry token authority";
constexpr char kLeafName[] = "compilecache-operator registry tokens";

Result<KeyPair> make_ca(const AuthorityPolicy& policy, WallTime now) {
  return issue_certificate({kAuthorityName, {}, now - policy.backdate, now + policy.ca_life}, {});
}

// Time left of a certificate; nothing when it cannot be read or is over.
std::optional<Duration> left(const std::string& pem, WallTime now) {
  const auto facts = read_certificate(pem);
  if (!facts || facts->not_after <= now) return std::nullopt;
  return facts->not_after - now;
}

bool usable(const KeyPair& ca, WallTime now) {
  return is_certificate_list(ca.certificate) && left(ca.certificate, now) &&
         belongs_together(ca, ca.certificate);
}

}  // namespace

std::string TokenAuthority::bundle() const {
  return previous_ca + ca.certificate + next_ca.certificate;
}

const char* to_string(AuthorityStep step) {
  switch (step) {
    case AuthorityStep::kStartAnew:
      return "new authority";
    case AuthorityStep::kAddNext:
      return "next authority made known";
    case AuthorityStep::kSwitch:
      return "next authority signs";
    case AuthorityStep::kDropPrevious:
      return "previous authority dropped";
  }
  return "unknown";
}

Result<TokenAuthority> make_token_authority(const AuthorityPolicy& policy, WallTime now) {
  auto ca = make_ca(policy, now);
  if (!ca) return unexpected(ca.error());
  return TokenAuthority{.ca = std::move(*ca), .changed = now};
}

bool is_usable(const TokenAuthority& authority, WallTime now) { return usable(authority.ca, now); }

std::optional<AuthorityStep> next_authority_step(const TokenAuthority& authority,
                                                 const AuthorityPolicy& policy, bool registry_knows,
                                                 WallTime now) {
  if (!usable(authority.ca, now)) return AuthorityStep::kStartAnew;
  if (!authority.previous_ca.empty()) {
    const bool over = now - authority.changed >= policy.previous_stays;
    return over ? std::optional(AuthorityStep::kDropPrevious) : std::nullopt;
  }
  if (*left(authority.ca.certificate, now) >= policy.next_before) return std::nullopt;
  if (!usable(authority.next_ca, now)) return AuthorityStep::kAddNext;
  return registry_knows ? std::optional(AuthorityStep::kSwitch) : std::nullopt;
}

Result<TokenAuthority> rotate_authority(const TokenAuthority& authority, AuthorityStep step,
                                        const AuthorityPolicy& policy, WallTime now) {
  TokenAuthority next = authority;
  next.changed = now;
  switch (step) {
    case AuthorityStep::kStartAnew: {
      auto made = make_token_authority(policy, now);
      // Other replicas mint by it until they look, and what it signed is good for minutes.
      const std::string& before = authority.ca.certificate;
      if (made && is_certificate_list(before) && left(before, now)) made->previous_ca = before;
      return made;
    }
    case AuthorityStep::kAddNext: {
      auto ca = make_ca(policy, now);
      if (!ca) return unexpected(ca.error());
      next.next_ca = std::move(*ca);
      return next;
    }
    case AuthorityStep::kSwitch:
      next.previous_ca = authority.ca.certificate;
      next.ca = authority.next_ca;
      next.next_ca = {};
      return next;
    case AuthorityStep::kDropPrevious:
      next.previous_ca.clear();
      return next;
  }
  return fail(ErrorCode::kInternal, "rotating the authority of tokens: unknown step");
}

Result<KeyPair> make_token_leaf(const TokenAuthority& authority, const AuthorityPolicy& policy,
                                WallTime now) {
  if (!is_usable(authority, now)) {
    return fail(ErrorCode::kInvalid,
                "making a key for the registry's tokens: their authority has ended, or it is no "
                "certificate with its key; the operator's leader makes another one");
  }
  return issue_certificate({.common_name = kLeafName,
                            .not_before = now - policy.backdate,
                            .not_after = now + policy.leaf_life,
                            .signs_tokens = true},
                           authority.ca);
}

bool needs_leaf(const KeyPair& leaf, const TokenAuthority& authority, const AuthorityPolicy& policy,
                WallTime now) {
  const auto rest = left(leaf.certificate, now);
  return !rest || *rest < policy.leaf_renew_before ||
         !belongs_together(leaf, authority.ca.certificate);
}

std::map<std::string, std::string> authority_entries(const TokenAuthority& authority) {
  std::map<std::string, std::string> entries{{"ca.crt", authority.ca.certificate},
                                             {"ca.key", authority.ca.key},
                                             {"changed", format_time(authority.changed)}};
  if (!authority.next_ca.empty()) {
    entries["next-ca.crt"] = authority.next_ca.certificate;
    entries["next-ca.key"] = authority.next_ca.key;
  }
  if (!authority.previous_ca.empty()) entries["previous-ca.crt"] = authority.previous_ca;
  return entries;
}

TokenAuthority from_authority_entries(const std::map<std::string, std::string>& entries) {
  const auto entry = [&](const char* name) {
    const auto found = entries.find(name);
    return found == entries.end() ? std::string() : found->second;
  };
  // A registry does not start with what is no certificate.
  const auto certificate = [&](const char* name) {
    std::string pem = entry(name);
    return is_certificate_list(pem) ? pem : std::string();
  };
  return {{entry("ca.crt"), entry("ca.key")},
          {certificate("next-ca.crt"), entry("next-ca.key")},
          certificate("previous-ca.crt"),
          parse_time(entry("changed")).value_or(WallTime{})};
}

}  // namespace compilecache::controller
