#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.hpp"

// A repository of a registry as people write it: the registry's host and the path below it.
//
//   const auto name = parse_repository("harbor.example.com:8443/ml/caches");
//   name->host;                              // "harbor.example.com:8443"
//   name->path;                              // "ml/caches"
//   parse_repository("harbor.example.com/ml/caches:v1").error().message;   // "... has a tag; ..."
//
// Pure; safe from any thread.

namespace compilecache::api {

struct RepositoryName {
  std::string host;  // with its port, where that is written
  std::string path;
};

// Fails with kInvalid. The message begins with what is wrong: "must not have a tag: ...".
Result<RepositoryName> parse_repository(std::string_view text);

// Registries refuse longer paths (distribution v3, seen).
inline constexpr size_t kLongestRepositoryPath = 255;

}  // namespace compilecache::api
