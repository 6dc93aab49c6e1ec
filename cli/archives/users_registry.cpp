#include "cli/archives/users_registry.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "http/proxy.hpp"
#include "store/access/open.hpp"
#include "store/registry/docker_config.hpp"
#include "store/registry/reference.hpp"

namespace compilecache::cli {
namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

// The file with credentials for the registry; empty: there is none. A file that somebody named has
// to be usable.
Result<std::string> find_credentials(const RegistryLogin& login,
                                     const store::Reference& reference) {
  const auto files = login.auth_file.empty() ? usual_auth_files(variable)
                                             : std::vector<std::string>{login.auth_file};
  for (const std::string& file : files) {
    std::ifstream in(file);
    if (!in && login.auth_file.empty()) continue;
    std::stringstream text;
    text << in.rdbuf();
    if (!in) return fail(ErrorCode::kInvalid, "the credentials in " + file + " cannot be read");
    const auto found = store::credentials_in(text.str(), reference);
    if (found) return file;
    if (found.error().code == ErrorCode::kUnauthorized && login.auth_file.empty()) continue;
    return fail(ErrorCode::kInvalid, "reading the credentials in " + file + ": " +
                                         found.error().message +
                                         "; here: `skopeo login --authfile FILE " + reference.host +
                                         "`, and --authfile FILE");
  }
  return "";
}

}  // namespace

std::vector<std::string> usual_auth_files(const Variables& variables) {
  std::vector<std::string> files;
  const auto add = [&](const char* name, const std::string& below) {
    if (const auto value = variables(name)) files.push_back(*value + below);
  };
  add("REGISTRY_AUTH_FILE", "");
  add("XDG_RUNTIME_DIR", "/containers/auth.json");
  add("DOCKER_CONFIG", "/config.json");
  add("HOME", "/.docker/config.json");
  return files;
}

Result<api::RegistryRef> users_registry_of(const api::CompileCache& cache) {
  const auto store = api::store_of(cache, {});
  if (store && store->registry() != nullptr) return *store->registry();
  return fail(ErrorCode::kInvalid,
              "CompileCache " + cache.metadata.name + " keeps its archives in the " +
                  api::store_in_words(cache) +
                  ", which is not reached from here: first `kubectl compilecache copy " +
                  cache.metadata.name + " --to OTHER --to-registry REPOSITORY`");
}

Result<std::unique_ptr<store::Store>> open_users_registry(const api::RegistryRef& registry,
                                                          const RegistryLogin& login) {
  const auto file = find_credentials(login, {registry.host, registry.repository});
  if (!file) return unexpected(file.error());
  std::error_code ignored;
  const auto spool = std::filesystem::temp_directory_path(ignored);
  return store::open_registry(
      {.host = registry.host,
       .repository = registry.repository,
       .ca_file = login.ca_file,
       .plain_http = login.ca_file.empty() && store::is_loopback(registry.host),
       .proxy = http::proxy_of_environment(),
       .docker_config_file = *file,
       .spool_folder = ignored ? "/tmp" : spool.string()});
}

}  // namespace compilecache::cli
