#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "http/message.hpp"
#include "http/server.hpp"
#include "kube/resource.hpp"
#include "operator/agents/caller_allowance.hpp"
#include "operator/agents/token_verdicts.hpp"
#include "operator/registry/token_minter.hpp"
#include "operator/registry/token_scope.hpp"
#include "operator/review_pool.hpp"

// Tokens of the installation's own registry for people and their tools (skopeo, oras, cosign): the
// `realm` of the registry, as docker's token protocol wants it.
//
//   RegistryTokenEndpoint endpoint(minter, [&](const auto& resource, const auto& object) {
//     return client.create(resource, object);
//   }, clock);
//   endpoint.start();
//   endpoint.handle(std::move(request), std::move(respond));  // GET /v1/registry/token
//   endpoint.stop();
//
// The password (or the Bearer token) is a token of the API server, as `kubectl create token` gives
// it; the user's name does not matter. Whoever may `get` the CompileCacheArchives of a namespace
// may pull from its repositories, and who may `create` them may push; nobody deletes.

namespace compilecache::controller {

inline constexpr char kRegistryTokenPath[] = "/v1/registry/token";

// Which of the asked for the holder of a token is granted. A yes is believed for a minute, a no for
// ten seconds. Thread-safe; blocks on the API server.
class RegistryAccess {
 public:
  using Create =
      std::function<Result<nlohmann::json>(const kube::Resource&, const nlohmann::json& object)>;
  struct Granted {
    std::string user;
    std::vector<TokenAccess> access;
  };

  RegistryAccess(Create create, const Clock& clock);

  // kUnauthorized, or kUnavailable when the API server does not answer or `peer` (an address with
  // its port) has shown too many tokens that were of no use. What is not granted is left out.
  Result<Granted> grant(std::string_view token, const std::vector<TokenScope>& scopes,
                        std::string_view peer);

 private:
  Result<nlohmann::json> identify(std::string_view token, std::string_view peer);
  Result<bool> may(std::string_view token, const nlohmann::json& identity, const char* verb,
                   const std::string& ns);

  const Create create_;
  CallerAllowance allowance_;
  TokenVerdicts<Result<nlohmann::json>> known_;  // what the API server says of the token
  TokenVerdicts<bool> allowed_;                  // by token, verb and namespace
};

// Answers on threads of its own, since checks block on the API server. Thread-safe; all parts must
// outlive it.
class RegistryTokenEndpoint {
 public:
  RegistryTokenEndpoint(const TokenMinter& minter, RegistryAccess::Create create,
                        const Clock& clock);

  void start() { threads_.start(); }
  void stop() { threads_.stop(); }
  void handle(http::Request request, http::Responder respond);
  // The answer itself, in this thread.
  [[nodiscard]] http::Response answer(const http::Request& request);

 private:
  const TokenMinter& minter_;
  RegistryAccess access_;
  ReviewPool threads_;  // last: its threads use all of the above
};

}  // namespace compilecache::controller
