#include "operator/registry/own_repositories.hpp"

#include <utility>

#include "store/registry/registry_client.hpp"

namespace compilecache::controller {
namespace {

// Of its tokens.
constexpr char kSubject[] = "compilecache-operator";
// A client is of one repository, and the list is of none.
constexpr char kAnyRepository[] = "catalog";
constexpr int kAttempts = 2;
constexpr std::chrono::milliseconds kConnect{1'000}, kAnswer{5'000};

// "10.96.0.7:5000" -> "10.96.0.7", "[fd00::7]:5000" -> "fd00::7": the host has the port too.
std::string without_port(const std::string& address) {
  if (address.starts_with('[')) return address.substr(1, address.find(']') - 1);
  return address.substr(0, address.rfind(':'));
}

}  // namespace

Result<store::RegistryOptions> OwnRepositories::options(const std::string& repository,
                                                        std::vector<TokenAccess> tokens) const {
  const api::OwnRegistry place = access_.place();
  if (!place.installed()) {
    return fail(ErrorCode::kUnavailable,
                "asking the installation's own registry: its Service is not there");
  }
  store::RegistryOptions options{.host = place.host,
                                 .repository = repository,
                                 .address = without_port(place.address),
                                 .ca_pem = access_.authorities(),
                                 .system_authorities = false,
                                 .plain_http = access_.plain_http};
  options.retries.attempts = kAttempts;
  options.connect_timeout = kConnect;
  options.answer_timeout = kAnswer;
  options.stall_timeout = kAnswer;
  options.tokens = [this, tokens = std::move(tokens)](bool,
                                                      http::SteadyTime) -> Result<store::Token> {
    const auto minted = access_.minter.mint(kSubject, tokens);
    if (!minted) return unexpected(minted.error());
    return store::Token{minted->token, minted->life};
  };
  return options;
}

template <typename T, typename Do>
Result<T> OwnRepositories::with(const std::string& repository, const Do& act) const {
  auto how = options(repository, {{repository, {"pull", "push", "delete"}}});
  if (!how) return unexpected(how.error());
  store::RegistryClient client(std::move(*how));
  return act(client);
}

Result<std::vector<std::string>> OwnRepositories::list() const {
  auto how = options(kAnyRepository, {{"catalog", {"*"}, "registry"}});
  if (!how) return unexpected(how.error());
  store::RegistryClient client(std::move(*how));
  return store::list_repositories(client);
}

Result<store::RepositoryUse> OwnRepositories::use(const std::string& repository,
                                                  const store::RepositoryUse* known) const {
  return with<store::RepositoryUse>(repository,
                                    [&](auto& client) { return store::read_use(client, known); });
}

Status OwnRepositories::mark_unneeded(const std::string& repository, WallTime since) const {
  return with<void>(repository, [&](auto& client) { return store::mark_unneeded(client, since); });
}

Status OwnRepositories::mark_needed(const std::string& repository) const {
  return with<void>(repository, [](auto& client) { return store::mark_needed(client); });
}

Result<size_t> OwnRepositories::empty(const std::string& repository) const {
  return with<size_t>(repository, [](auto& client) { return store::empty_repository(client); });
}

Result<store::SavedContent> OwnRepositories::find_save(const std::string& repository,
                                                       const std::string& manifest) const {
  return with<store::SavedContent>(
      repository, [&](auto& client) { return store::find_save(client, manifest); });
}

}  // namespace compilecache::controller
