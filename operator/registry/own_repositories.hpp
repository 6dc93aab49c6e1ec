#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/store_ref.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "operator/registry/token_minter.hpp"
#include "store/registry/repository_use.hpp"

// The repositories of the installation's own registry, as the operator reads and empties them, with
// tokens that it mints for itself.
//
//   OwnRepositories repositories(access);
//   for (const std::string& name : *repositories.list()) {
//     const auto use = repositories.use(name);
//   }
//
// Blocks on the registry. Thread-safe; the minter must outlive it.

namespace compilecache::controller {

struct OwnRegistryAccess {
  std::function<api::OwnRegistry()> place;
  std::function<std::string()> authorities;  // PEM, of those that may have signed its certificate
  const TokenMinter& minter;
  bool plain_http = false;  // for a registry in a test
};

class OwnRepositories {
 public:
  explicit OwnRepositories(OwnRegistryAccess access) : access_(std::move(access)) {}

  // What the functions of store/registry/repository_use.hpp do; kUnavailable also where no registry
  // is installed.
  [[nodiscard]] Result<std::vector<std::string>> list() const;
  [[nodiscard]] Result<store::RepositoryUse> use(const std::string& repository,
                                                 const store::RepositoryUse* known = nullptr) const;
  [[nodiscard]] Status mark_unneeded(const std::string& repository, WallTime since) const;
  [[nodiscard]] Status mark_needed(const std::string& repository) const;
  [[nodiscard]] Result<size_t> empty(const std::string& repository) const;
  [[nodiscard]] Result<store::SavedContent> find_save(const std::string& repository,
                                                      const std::string& manifest) const;

 private:
  [[nodiscard]] Result<store::RegistryOptions> options(const std::string& repository,
                                                       std::vector<TokenAccess> tokens) const;
  template <typename T, typename Do>
  Result<T> with(const std::string& repository, const Do& act) const;

  const OwnRegistryAccess access_;
};

}  // namespace compilecache::controller
