#include "agent/sweep/trust_gate.hpp"

#include "base/base64.hpp"
#include "base/log.hpp"
#include "store/signatures.hpp"

namespace compilecache::agent {
namespace {

api::FoundSignature shown(const store::Signature& signature) {
  if (!signature.bundle.empty()) return {.bundle = base64_encode(signature.bundle)};
  return {.payload = base64_encode(signature.message),
          .signature = base64_encode(signature.signature)};
}

}  // namespace

Result<TrustGate> TrustGate::of(const std::vector<std::string>& public_keys) {
  TrustGate gate;
  if (public_keys.empty()) return gate;
  auto keys = store::TrustedKeys::parse(public_keys);
  if (!keys) return unexpected(keys.error());
  gate.keys_ = std::move(*keys);
  return gate;
}

Result<TrustGate::Verdict> TrustGate::lets_in(store::Store& from,
                                              const std::string& manifest) const {
  if (!keys_) return Verdict{.let_in = true};
  store::Signatures* signatures = from.signatures();
  if (signatures == nullptr) return Verdict{};
  const store::FoundSignatures found = signatures->of(manifest);
  for (const store::Signature& signature : found.all) {
    if (keys_->vouch_for(manifest, {signature})) return Verdict{true, {shown(signature)}};
  }
  if (!found.unread) return Verdict{};
  return unexpected(
      found.unread->with("looking for who has signed " + manifest + " in " + from.describe()));
}

Result<TrustGate::LetIn> TrustGate::first_let_in(store::Store& from,
                                                 std::span<const store::IndexEntry> saves) const {
  std::optional<Error> unread;  // of the first such
  for (const store::IndexEntry& save : saves) {
    const auto verdict = lets_in(from, save.digest);
    if (!verdict && !unread) unread = verdict.error();
    if (!verdict || !verdict->let_in) continue;
    if (unread) {
      log_warn("an earlier save is taken, as the signer of a later one is unknown",
               {{"archive", save.name()}, {"digest", save.digest}, {"error", unread->message}});
    }
    return LetIn{&save, verdict->signatures};
  }
  if (unread) return unexpected(*unread);
  return LetIn{};
}

}  // namespace compilecache::agent
