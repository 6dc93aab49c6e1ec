#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/cutoff.hpp"
#include "base/error.hpp"
#include "base/mutex.hpp"
#include "http/session.hpp"
#include "store/registry/challenge.hpp"
#include "store/registry/docker_config.hpp"

// What requests to one repository show to be let in: nothing, a name and password, or a token that
// the registry's token service gives for these; or a token from the caller.
//
//   auto header = authorization.header(Right::kPush);       // "" or "Bearer ..."
//   ...                                                     // the registry answers 401
//   auto renewed = authorization.renew(*header, challenges_of(headers), Right::kPush);

namespace compilecache::store {

// The permission that a request needs. Pushing includes pulling.
enum class Right { kPull, kPush, kDelete };

struct Token {
  std::string value;
  std::chrono::seconds lifetime{60};
};
// Where a registry's tokens come from that does not say so itself: the operator. `push`: to push
// and pull, else to pull; `until`: who asks has no use for an answer after that.
using TokenSource = std::function<Result<Token>(bool push, http::SteadyTime until)>;
// The text of the docker config as it is now: kubelets replace the file when the Secret changes.
using DockerConfigSource = std::function<Result<std::string>()>;

struct AuthorizationOptions {
  Reference repository;              // its host as users write it, which docker configs name
  TokenSource tokens;                // or
  DockerConfigSource docker_config;  // or neither: anonymous
};

// Thread-safe. While one thread gets a token the others wait for it.
class Authorization {
 public:
  // Session, clock and the session's cutoff must outlive it.
  Authorization(AuthorizationOptions options, http::Session& session, const Clock& clock,
                const Cutoff& cutoff)
      : options_(std::move(options)), session_(session), clock_(clock), cutoff_(cutoff) {}

  // The value of the header Authorization; empty: to be sent without. A token that expires soon is
  // replaced first.
  Result<std::string> header(Right right);
  // After a 401 to a request with the header `sent`: does what the challenges ask for, so that
  // header() is another one. They have to be the registry's own: a challenge names
  // the server that gets the password. kUnauthorized: there is nothing else to try. Otherwise the
  // errors of the token's source.
  Status renew(const std::string& sent, const std::vector<Challenge>& challenges, Right right);

 private:
  struct Held {
    Token token;
    bool push = false;
    Monotonic good_until{};
  };

  Status get_token(Right right) REQUIRES(mutex_);
  // Gets a token in place of the one that was sent.
  Status replace(const std::string& sent, Right right) REQUIRES(mutex_);
  Result<Token> ask_realm(const std::string& actions) REQUIRES(mutex_);
  [[nodiscard]] Result<Credentials> credentials() const;
  [[nodiscard]] Right asked_as(Right right) const REQUIRES(mutex_);
  // The token for requests that need this right.
  std::optional<Held>& held_for(Right right) REQUIRES(mutex_);
  [[nodiscard]] bool usable(Right right) REQUIRES(mutex_);

  const AuthorizationOptions options_;
  http::Session& session_;
  const Clock& clock_;
  const Cutoff& cutoff_;
  Mutex mutex_;
  std::optional<Challenge> challenge_ GUARDED_BY(mutex_);  // the registry's, once it is known
  std::string basic_ GUARDED_BY(mutex_);
  std::optional<Held> held_ GUARDED_BY(mutex_);      // to pull, or to pull and push
  std::optional<Held> deleting_ GUARDED_BY(mutex_);  // to delete
  // The scope that the registry asked of a token to delete with; empty: it has not asked yet.
  std::string delete_actions_ GUARDED_BY(mutex_);
};

}  // namespace compilecache::store
