#include "agent/open_store.hpp"

#include <utility>

#include "api/names.hpp"
#include "http/proxy.hpp"
#include "store/access/open.hpp"
#include "store/registry/refusal.hpp"
#include "store/registry/registry_options.hpp"

namespace compilecache::agent {
namespace {

// A change of the operator's leader takes a few seconds.
constexpr Patience kTokenPatience{5000};

// "10.96.0.7:5000" -> "10.96.0.7", "[fd00::7]:5000" -> "fd00::7"
std::string without_port(const std::string& address) {
  if (address.rfind('[', 0) == 0) return address.substr(1, address.find(']') - 1);
  return address.substr(0, address.rfind(':'));
}

// Tokens of the operator, who decides what they are good for.
store::TokenSource minted_tokens(std::shared_ptr<Coordinator> coordinator, bool source) {
  return [coordinator = std::move(coordinator), source](bool push) -> Result<store::Token> {
    const auto minted =
        coordinator->registry_token({.push = push, .source = source}, kTokenPatience);
    if (!minted) {
      return unexpected(minted.error().with("asking the operator for a token of the registry"));
    }
    if (push && !minted->push) {
      Error error{ErrorCode::kForbidden,
                  "the operator gives no token with which the registry could be written to: " +
                      minted->reason};
      error.reason = minted->reason;
      return unexpected(error);
    }
    return store::Token{minted->token, std::chrono::seconds(minted->expires_seconds)};
  };
}

store::RegistryOptions options_of(const api::RegistryRef& registry) {
  store::RegistryOptions options{.host = registry.host, .repository = registry.repository};
  options.spool_folder = api::kSpoolPath;
  return options;
}

// `secret` and `ca`: where the registry's Secret and ConfigMap are mounted.
store::RegistryOptions users_registry(const api::RegistryRef& registry, const std::string& secret,
                                      const std::string& ca) {
  auto options = options_of(registry);
  options.proxy = http::proxy_of_environment();
  if (!registry.secret.empty()) {
    options.docker_config_file = secret + "/" + api::kRegistrySecretKey;
  }
  if (!registry.ca_config_map.empty()) {
    options.ca_file = ca + "/" + api::kRegistryCaKey;
  }
  return options;
}

store::RegistryOptions own_registry(const api::AgentConfig& config,
                                    const api::RegistryRef& registry, store::TokenSource tokens) {
  auto options = options_of(registry);
  options.address = without_port(registry.address);
  options.ca_pem = config.operator_ca;
  options.system_authorities = false;
  options.tokens = std::move(tokens);
  return options;
}

}  // namespace

std::unique_ptr<store::Store> open_store(const api::AgentConfig& config, const Clock& clock,
                                         const Random& random, Sleep sleep) {
  const api::RegistryRef* registry = config.store ? config.store->registry() : nullptr;
  if (registry == nullptr) return store::open_store(api::store_directory(config));
  if (!registry->own) {
    return store::open_store(
        users_registry(*registry, api::kRegistrySecretPath, api::kRegistryCaPath));
  }
  auto client = make_operator_client(config, clock, random, std::move(sleep));
  return store::open_store(
      own_registry(config, *registry, minted_tokens(std::move(client), false)));
}

std::unique_ptr<store::Store> open_source(const api::AgentConfig& config, const Clock& clock,
                                          const Random& random, Sleep sleep) {
  if (!config.sweep.copy_from) return nullptr;
  const api::StoreRef& source = *config.sweep.copy_from;
  if (source.volume() != nullptr) return store::open_store(api::source_directory(config));
  const api::RegistryRef& registry = *source.registry();
  if (!registry.own) {
    return store::open_store(users_registry(registry, api::kSourceSecretPath, api::kSourceCaPath));
  }
  auto client = make_operator_client(config, clock, random, std::move(sleep));
  return store::open_store(own_registry(config, registry, minted_tokens(std::move(client), true)));
}

}  // namespace compilecache::agent
