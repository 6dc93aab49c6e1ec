#pragma once

#include <string>

#include "base/error.hpp"

// Names of repositories: "harbor.example.com/ml/caches", as users write them in
// spec.storage.registry.repository. Pure.
//
//   const auto reference = parse_reference("10.0.0.7:5000/ml/caches");
//   reference->host;                // "10.0.0.7:5000"
//   reference->repository;          // "ml/caches"

namespace compilecache::store {

// What registries take (distribution's reference grammar), without the host.
inline constexpr size_t kLongestRepository = 255;

struct Reference {
  std::string host;        // with its port, if it has one; IPv6 in brackets
  std::string repository;  // "ml/caches"

  bool operator==(const Reference&) const = default;
};

// kInvalid: the message says what is wrong: a scheme, a tag, a digest, an upper-case letter, too
// long, or not a name at all.
Result<Reference> parse_reference(const std::string& text);

// The same for a repository's name alone.
Status check_repository(const std::string& repository);

// The host that serves the API for a host of a reference: they differ for Docker Hub.
std::string api_host(const std::string& host);

// Whether all addresses of this host ("127.0.0.1:5000", "localhost") are this machine's own.
bool is_loopback(const std::string& host);

}  // namespace compilecache::store
