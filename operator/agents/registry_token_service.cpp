#include "operator/agents/registry_token_service.hpp"

#include "base/log.hpp"
#include "operator/agents/save_contexts.hpp"
#include "operator/registry/registry_quota.hpp"
#include "operator/registry/registry_tokens.hpp"

namespace compilecache::controller {

Result<api::RegistryToken> RegistryTokenService::token(
    const Caller& caller, const api::RegistryTokenRequest& request) const {
  if (parts_.minter == nullptr) {
    return fail(ErrorCode::kNotFound,
                "asking for a token of the registry: this installation has none; install "
                "config/components/registry, or name a store in spec.storage");
  }
  if (request.source) return for_source(caller);
  const api::RegistryRef* registry = caller.store ? caller.store->registry() : nullptr;
  if (registry == nullptr || !registry->own) {
    return fail(ErrorCode::kNotFound, "asking for a token of the registry: CompileCache " +
                                          caller.cache->metadata.name +
                                          " keeps its archives elsewhere");
  }
  TokenFacts facts{.sweeper = caller.sweeper, .push = request.push};
  if (!caller.sweeper && request.push) {
    facts.may_not_save = may_not_save(caller);
    const auto full =
        over_quota(*caller.cache, registry_use(parts_.view, *caller.cache, parts_.usage),
                   parts_.settings.registry.namespace_share);
    if (full) facts.over_quota = full->reason;
  }
  TokenGrant grant = grant_token(facts);
  const std::string who = caller.ns() + "/" + caller.pod->name;
  const std::string& repository = registry->repository;
  const bool push = grant.actions.size() > 1;
  const auto minted = parts_.minter->mint(who, {{repository, std::move(grant.actions)}});
  if (!minted) return unexpected(minted.error());
  log_debug("minted a token for the registry",
            {{"pod", who}, {"repository", repository}, {"why_no_push", grant.reason}});
  return api::RegistryToken{.token = minted->token,
                            .expires_seconds = minted->life.count(),
                            .push = push,
                            .reason = std::move(grant.reason)};
}

// To read the repository of the CompileCache that archives are copied from, in the same namespace.
Result<api::RegistryToken> RegistryTokenService::for_source(const Caller& caller) const {
  const auto source = parts_.view.copy_source_of(*caller.cache);
  const api::RegistryRef* registry = source ? source->registry() : nullptr;
  if (!caller.sweeper || registry == nullptr || !registry->own) {
    return fail(ErrorCode::kForbidden,
                "asking for a token of the registry: CompileCache " + caller.cache->metadata.name +
                    " copies nothing from it, or this is no sweep Job's pod");
  }
  const auto minted = parts_.minter->mint(caller.ns() + "/" + caller.pod->name,
                                          {{registry->repository, grant_token({}).actions}});
  if (!minted) return unexpected(minted.error());
  return api::RegistryToken{.token = minted->token, .expires_seconds = minted->life.count()};
}

}  // namespace compilecache::controller
