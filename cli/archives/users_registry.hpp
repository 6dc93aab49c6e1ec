#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "store/store.hpp"

// A registry, opened as the person at the keyboard: with their own credentials, not those that the
// CompileCache's pods have.

namespace compilecache::cli {

struct RegistryLogin {
  std::string auth_file;  // empty: the first there is of the usual ones
  std::string ca_file;    // trusted too; empty: the system's authorities do
};

using Variables = std::function<std::optional<std::string>(const std::string& name)>;

// Where `docker login`, `skopeo login` and `oras login` leave credentials, the first that is to be
// asked first: REGISTRY_AUTH_FILE, XDG_RUNTIME_DIR/containers/auth.json, DOCKER_CONFIG/config.json,
// ~/.docker/config.json.
std::vector<std::string> usual_auth_files(const Variables& variables);

// kInvalid: the CompileCache keeps its archives elsewhere, which cannot be reached from here.
Result<api::RegistryRef> users_registry_of(const api::CompileCache& cache);

// kInvalid: a credential helper keeps the credentials, or the file cannot be read. A registry that
// no file names is asked without.
Result<std::unique_ptr<store::Store>> open_users_registry(const api::RegistryRef& registry,
                                                          const RegistryLogin& login);

}  // namespace compilecache::cli
