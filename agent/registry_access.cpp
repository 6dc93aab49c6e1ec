#include "agent/registry_access.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "api/names.hpp"
#include "base/mutex.hpp"
#include "store/registry/reference.hpp"
#include "store/registry/refusal.hpp"

namespace compilecache::agent {
namespace {

// A load without a token is a cold start soon; a save can wait for a change of leader.
constexpr Patience kPullPatience{3000};
constexpr Patience kPushPatience{20'000};
// The registry's one pod is recreated for other certificates and for collection. Saves and sweeps
// bridge that: five pauses, 7.75 s in all.
constexpr int kOwnAttempts = 6;
constexpr std::chrono::milliseconds kLoadUnanswered{2000};
// For a manifest, which is the first that a load asks for: a registry that takes connections and
// then says nothing.
constexpr std::chrono::milliseconds kLoadAnswered{5000};
// Beside the largest archive there is room for its list of files.
constexpr uint64_t kBesideTheArchive = 256ULL << 20;

std::string in_folder(const char* folder, const char* name) {
  return std::string(folder) + "/" + name;
}

std::string spool_folder(const api::AgentConfig& config) {
  return ::access(api::kSpoolPath, W_OK | X_OK) == 0 ? api::kSpoolPath : config.control_path;
}

uint64_t spool_limit(const api::AgentConfig& config) {
  const uint64_t wanted = static_cast<uint64_t>(config.save.max_archive_size) + kBesideTheArchive;
  const auto ephemeral = static_cast<uint64_t>(config.ephemeral_limit_bytes);
  return ephemeral == 0 ? wanted : std::min(wanted, ephemeral / 2);
}

// Where what belongs to a registry is found: that of the CompileCache, or the one that is copied
// from.
struct MountedAt {
  const char* secret_path;
  const char* ca_path;
  bool source;
};
constexpr MountedAt kStoreMount{api::kRegistrySecretPath, api::kRegistryCaPath, false};
constexpr MountedAt kSourceMount{api::kSourceSecretPath, api::kSourceCaPath, true};

// The operator answers a request for pushing with a token for pulling where nothing may be written.
Result<store::Token> usable_token(api::RegistryToken&& given, bool push) {
  if (push && !given.push) {
    const bool full = given.reason == api::kQuotaExceeded;
    Error error{ErrorCode::kForbidden,
                full ? "the CompileCache, or its namespace, keeps as much in the installation's "
                       "registry as it may: the condition StorageReady says which, and what to do "
                       "(kubectl describe cc)"
                     : "the operator gives no token for pushing: " +
                           (given.reason.empty() ? "no reason given" : given.reason) +
                           "; `kubectl describe cc` says more"};
    error.reason = full ? api::kQuotaExceeded : store::kReasonUnauthorized;
    return unexpected(std::move(error));
  }
  return store::Token{std::move(given.token),
                      std::chrono::seconds(std::max<int64_t>(1, given.expires_seconds))};
}

// Shared by the copies of a TokenSource.
class OperatorTokens {
 public:
  OperatorTokens(CoordinatorSource coordinator, bool of_source)
      : connect_(std::move(coordinator)), of_source_(of_source) {}

  Result<store::Token> get(bool push, http::SteadyTime until) {
    const MutexLock lock(mutex_);
    if (coordinator_ == nullptr) coordinator_ = connect_();
    const auto left = std::chrono::ceil<Patience>(until - std::chrono::steady_clock::now());
    auto given = coordinator_->registry_token({.push = push, .source = of_source_},
                                              std::min(left, push ? kPushPatience : kPullPatience));
    if (given) return usable_token(std::move(*given), push);
    Error error = given.error().with("asking the operator for a token of its registry");
    // Its answer is not about a blob.
    if (error.code == ErrorCode::kNotFound) error.code = ErrorCode::kForbidden;
    const bool silent = error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimeout;
    error.reason = silent ? store::kReasonUnreachable : store::kReasonUnauthorized;
    return unexpected(std::move(error));
  }

 private:
  const CoordinatorSource connect_;
  const bool of_source_;
  Mutex mutex_;
  std::unique_ptr<Coordinator> coordinator_ GUARDED_BY(mutex_);
};

// "10.96.0.7:5000" -> "10.96.0.7", "[fd00::7]:5000" -> "fd00::7": the host has the port too.
std::string without_port(const std::string& address) {
  if (address.rfind('[', 0) == 0) return address.substr(1, address.find(']') - 1);
  return address.substr(0, address.rfind(':'));
}

void use_own_registry(const api::AgentConfig& config, const api::RegistryRef& registry,
                      CoordinatorSource coordinator, bool of_source,
                      store::RegistryOptions& options) {
  options.address = without_port(registry.address);
  options.ca_pem = config.operator_ca;
  options.system_authorities = false;
  options.retries.attempts = kOwnAttempts;
  auto tokens = std::make_shared<OperatorTokens>(std::move(coordinator), of_source);
  options.tokens = [tokens = std::move(tokens)](bool push, http::SteadyTime until) {
    return tokens->get(push, until);
  };
}

void use_users_registry(const api::RegistryRef& registry, const MountedAt& mounted,
                        store::RegistryOptions& options) {
  options.proxy = http::proxy_of_environment();
  if (!registry.secret.empty()) {
    options.docker_config_file = in_folder(mounted.secret_path, api::kRegistrySecretKey);
  }
  if (!registry.ca_config_map.empty()) {
    options.ca_file = in_folder(mounted.ca_path, api::kRegistryCaKey);
  }
  options.plain_http = options.ca_file.empty() && store::is_loopback(registry.host);
}

store::RegistryOptions options_at(const MountedAt& mounted, const api::AgentConfig& config,
                                  const api::RegistryRef& registry, CoordinatorSource coordinator) {
  store::RegistryOptions options{.host = registry.host,
                                 .repository = registry.repository,
                                 .spool_folder = spool_folder(config),
                                 .spool_limit = spool_limit(config)};
  if (registry.own) {
    use_own_registry(config, registry, std::move(coordinator), mounted.source, options);
  } else {
    use_users_registry(registry, mounted, options);
  }
  return options;
}

}  // namespace

store::RegistryOptions registry_options(const api::AgentConfig& config,
                                        const api::RegistryRef& registry,
                                        CoordinatorSource coordinator) {
  return options_at(kStoreMount, config, registry, std::move(coordinator));
}

store::RegistryOptions loading_options(const api::AgentConfig& config,
                                       const api::RegistryRef& registry,
                                       CoordinatorSource coordinator) {
  auto options = registry_options(config, registry, std::move(coordinator));
  options.connect_timeout = kLoadUnanswered;
  options.retries.attempts = store::RetryLimits{}.attempts;
  options.retries.unanswered_for = kLoadUnanswered;
  options.answer_timeout = kLoadAnswered;
  return options;
}

store::RegistryOptions source_registry_options(const api::AgentConfig& config,
                                               const api::RegistryRef& registry,
                                               CoordinatorSource coordinator) {
  return options_at(kSourceMount, config, registry, std::move(coordinator));
}

}  // namespace compilecache::agent
