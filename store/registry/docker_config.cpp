#include "store/registry/docker_config.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/base64.hpp"
#include "base/checked_json.hpp"
#include "base/printable.hpp"

namespace compilecache::store {
namespace {

using Json = nlohmann::json;

constexpr char kWhat[] = "the docker config (.dockerconfigjson of the registry's Secret)";

tl::unexpected<Error> unusable(const std::string& why) {
  return fail(ErrorCode::kInvalid, std::string(kWhat) + " " + why);
}

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// All names of Docker Hub are one.
std::string hub_name(const std::string& host) {
  return host == "index.docker.io" || host == "registry-1.docker.io" ? "docker.io" : host;
}

// "https://index.docker.io/v1/" -> "docker.io", "host/path/" -> "host/path"
std::string place_of(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (begins_with(key, scheme)) key.remove_prefix(scheme.size());
  }
  while (!key.empty() && key.back() == '/') key.remove_suffix(1);
  const size_t slash = key.find('/');
  const std::string host = hub_name(std::string(key.substr(0, slash)));
  if (slash == std::string_view::npos) return host;
  const std::string_view path = key.substr(slash + 1);
  if (path == "v1" || path == "v2") return host;
  return host + "/" + std::string(path);
}

bool holds(const std::string& place, const std::string& repository) {
  return repository == place || begins_with(repository, place + "/");
}

Result<Credentials> parse_entry(const std::string& key, const Json& entry) {
  Credentials credentials{string_member(entry, "username").value_or(""),
                          string_member(entry, "password").value_or(""),
                          string_member(entry, "identitytoken").value_or("")};
  const auto auth = string_member(entry, "auth");
  if (credentials.username.empty() && auth && !auth->empty()) {
    const auto decoded = base64_decode(*auth);
    const size_t colon = decoded ? decoded->find(':') : std::string::npos;
    if (colon == std::string::npos) {
      return unusable("has an \"auth\" for " + printable(key) +
                      " that is not the base64 of USER:PASSWORD; make the Secret with `kubectl "
                      "create secret docker-registry`");
    }
    credentials.username = decoded->substr(0, colon);
    credentials.password = decoded->substr(colon + 1);
  }
  // So docker writes an identity token for its own helpers.
  if (credentials.username == "<token>" && credentials.identity_token.empty())
    credentials.identity_token = credentials.password;
  return credentials;
}

bool kept_by_a_helper(const Json& config, const std::string& host) {
  if (const auto store = string_member(config, "credsStore"); store && !store->empty()) return true;
  const auto helpers = config.find("credHelpers");
  if (helpers == config.end() || !helpers->is_object()) return false;
  for (const auto& helper : helpers->items()) {
    if (place_of(helper.key()) == host) return true;
  }
  return false;
}

}  // namespace

Result<Credentials> credentials_in(std::string_view docker_config, const Reference& repository) {
  auto config = parse_json(docker_config, kWhat);
  if (!config) return fail(ErrorCode::kInvalid, config.error().message);
  if (!config->is_object()) return unusable("is not a JSON object");
  const std::string host = hub_name(repository.host);
  const std::string name = host + "/" + repository.repository;
  const auto auths = config->find("auths");
  std::optional<std::string> best, best_key;
  if (auths != config->end() && auths->is_object()) {
    for (const auto& entry : auths->items()) {
      const std::string place = place_of(entry.key());
      if (!holds(place, name) || (best && best->size() >= place.size())) continue;
      best = place;
      best_key = entry.key();
    }
  }
  Credentials found;
  if (best_key) {
    auto parsed = parse_entry(*best_key, (*auths)[*best_key]);
    if (!parsed) return parsed;
    found = std::move(*parsed);
  }
  if (!found.empty()) return found;
  if (kept_by_a_helper(*config, host)) {
    return unusable("leaves the credentials of " + repository.host +
                    " to a credential helper, which cannot be run here: make the Secret with "
                    "`kubectl create secret docker-registry`, with username and password");
  }
  return fail(ErrorCode::kUnauthorized,
              std::string(kWhat) + " has no credentials for " + repository.host +
                  ": add an entry for it to \"auths\", or leave the Secret out where the registry "
                  "asks for none");
}

}  // namespace compilecache::store
