#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "store/registry/reference.hpp"

// Credentials of the kind that `docker login` keeps, and a Secret of type
// kubernetes.io/dockerconfigjson has in `.dockerconfigjson`. Pure.
//
//   const auto credentials = credentials_in(text, {"harbor.example.com", "ml/caches"});

namespace compilecache::store {

struct Credentials {
  std::string username;
  std::string password;
  std::string identity_token;  // an OAuth2 refresh token, in place of the password

  [[nodiscard]] bool empty() const { return username.empty() && identity_token.empty(); }
  bool operator==(const Credentials&) const = default;
};

// The entry for this repository: of its path or a folder above it, else of its host, as
// Kubernetes reads such Secrets. Docker Hub's has the name "https://index.docker.io/v1/".
//   kInvalid       not such a document; or its entry is kept by a credential helper, a program that
//                  is not here
//   kUnauthorized  it has no entry for this host
Result<Credentials> credentials_in(std::string_view docker_config, const Reference& repository);

}  // namespace compilecache::store
