#include "webhook/injection_plan.hpp"

#include <algorithm>

#include "api/names.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "webhook/agent_config.hpp"
#include "webhook/agent_containers.hpp"
#include "webhook/delivery.hpp"
#include "webhook/directories.hpp"
#include "webhook/eligibility.hpp"
#include "webhook/environment.hpp"
#include "webhook/own_caches.hpp"
#include "webhook/pod_bounds.hpp"
#include "webhook/resource_wishes.hpp"
#include "webhook/security_context.hpp"
#include "webhook/traps.hpp"

namespace compilecache::webhook {

namespace {

using api::InjectionReason;
using frameworks::Framework;

constexpr size_t kHashDigits = 16;

std::string hash_of(const Injection& injection) {
  std::vector<std::string> parts{injection.cache, join(injection.agents, "\n"),
                                 injection.safe_to_evict};
  for (const podspec::Volume& volume : injection.volumes) parts.push_back(volume.json);
  for (const podspec::Mount& mount : injection.mounts) parts.push_back(to_json(mount));
  for (const auto& environment : injection.environments) {
    for (const podspec::Variable& variable : environment) parts.push_back(to_json(variable));
    parts.emplace_back();
  }
  return sha256_hex(join(parts, "\n")).substr(0, kHashDigits);
}

api::InjectionStatus status_of(const Json& pod, const Injection& injection,
                               const api::AgentConfig& config, const InjectionSettings& settings) {
  api::InjectionStatus status;
  status.version = settings.version;
  status.hash = hash_of(injection);
  status.init_containers = injection.agent_names;
  for (const podspec::Volume& volume : injection.volumes) status.volumes.push_back(volume.name);
  for (size_t i = 0; i < injection.selection.containers.size(); ++i) {
    const Json& container = container_at(pod, injection.selection.containers[i]);
    const std::string name(text_member(container, "name"));
    status.containers.push_back(name);
    for (const podspec::Variable& variable : injection.environments[i]) {
      status.variables.push_back(name + ":" + variable.name);
    }
  }
  for (const podspec::Mount& mount : injection.mounts) status.mounts.push_back(mount.path);
  for (const api::AgentConfig::Directory& directory : config.directories) {
    status.frameworks.push_back(directory.framework.name);
  }
  status.mode = config.mode;
  status.wait_for_first_ms = config.load.wait_for_first.count();
  status.key_basis = config.key_basis;
  return status;
}

// PyTorch can neither only read its Redis cache nor rewrite it, and the connection is part of its
// keys, and of vLLM's. So pods of other modes are connected to a port where nobody listens.
// PyTorch gives up such a server at the first refusal.
api::CompileCacheSpec::Redis redis_for(const InjectionInput& input,
                                       const PodAnnotations& annotations) {
  if (!is_host(input.cache->spec.remote_cache.redis.host)) return {};
  if (annotations.mode != api::Mode::kReadWrite) return {.host = "127.0.0.1", .port = 1};
  return input.cache->spec.remote_cache.redis;
}

std::string no_registry(const std::string& cache) {
  return "CompileCache \"" + cache +
         "\" keeps its archives in the registry that is installed with the operator, and there is "
         "none; install it, or name a claim or a registry of yours in spec.storage";
}

std::string bad_host(const InjectionInput& input) {
  return "spec.remoteCache.redis.host: \"" +
         std::string(first_bytes(input.cache->spec.remote_cache.redis.host, 64)) +
         "\" cannot be used; write the name or address of a host";
}

// The injection for a CompileCache that keeps no archives: the variables of its Redis server and
// nothing else.
Decided<Injection> plan_remote_only(const InjectionInput& input, const Json& pod,
                                    const PodAnnotations& annotations,
                                    const std::vector<const Framework*>& frameworks) {
  const std::string name = "CompileCache \"" + annotations.cache + "\"";
  if (annotations.mode != api::Mode::kReadWrite) {
    return skip(InjectionReason::kAnnotationInvalid,
                std::string(api::kModeAnnotation) + ": \"" +
                    std::string(to_string(annotations.mode)) + "\" cannot be used; " + name +
                    " has no spec.storage, and a Redis server knows only ReadWrite, Disabled and "
                    "ForceCold");
  }
  const bool any = std::any_of(frameworks.begin(), frameworks.end(),
                               [](const Framework* one) { return !one->redis_env.empty(); });
  if (!any) {
    return skip(InjectionReason::kUnknownFramework,
                name +
                    " has no spec.storage, and none of its frameworks has a Redis cache; add "
                    "torch to spec.frameworks");
  }
  if (!is_host(input.cache->spec.remote_cache.redis.host)) {
    return skip(InjectionReason::kCacheNotReady, bad_host(input));
  }
  auto chosen = choose_containers(pod, annotations, input.settings);
  if (!chosen) return tl::unexpected(chosen.error());
  const auto names = check_names(pod, {}, annotations);
  if (!names) return tl::unexpected(names.error());

  Injection injection;
  injection.cache = annotations.cache;
  injection.selection.containers = std::move(*chosen);
  for (const size_t index : injection.selection.containers) {
    injection.environments.push_back(app_environment(container_at(pod, index), {}, frameworks,
                                                     input.cache->spec.remote_cache.redis, false));
  }
  injection.warnings = remote_cache_warnings(pod, injection.selection, frameworks);
  injection.status = status_of(pod, injection, {}, input.settings);
  return injection;
}

// The store of a CompileCache that keeps archives.
Decided<api::StoreRef> store_of(const InjectionInput& input, const PodAnnotations& annotations) {
  auto store = api::store_of(*input.cache, input.settings.own_registry);
  if (!store) return skip(InjectionReason::kCacheNotReady, no_registry(annotations.cache));
  if (store->registry() != nullptr && input.settings.agent_address.empty()) {
    return skip(InjectionReason::kCacheNotReady,
                "the archives of CompileCache \"" + annotations.cache +
                    "\" are in a registry, which has no index: only an operator knows which one is "
                    "a pod's; say where it is (agent.address of the settings, --agent-address)");
  }
  return std::move(*store);
}

// Of the loader and the saver; `app`: the first chosen container.
std::string environment_of(const api::AgentConfig& config, const api::StoreRef& store,
                           const Json& app) {
  const bool users_registry = store.registry() != nullptr && !store.registry()->own;
  return podspec::agent_environment(
      config, users_registry ? proxy_environment(app) : std::vector<std::string>());
}

void warn_of_redis(const InjectionInput& input, const Json& pod,
                   const std::vector<const Framework*>& frameworks, bool is_used,
                   Injection& injection) {
  if (is_used) {
    for (auto& warning : remote_cache_warnings(pod, injection.selection, frameworks)) {
      injection.warnings.push_back(std::move(warning));
    }
  }
  const std::string& host = input.cache->spec.remote_cache.redis.host;
  if (!host.empty() && !is_host(host)) {
    injection.warnings.push_back("compilecache.dev: " + bad_host(input));
  }
}

void add_agents(const AgentContainerInput& agents, bool one_container, Injection& injection) {
  if (!one_container) {
    injection.agent_names.emplace_back(api::kLoaderContainer);
    injection.agents.push_back(loader_container(agents));
  }
  injection.agent_names.emplace_back(api::kSaverContainer);
  injection.agents.push_back(one_container ? sidecar_container(agents) : saver_container(agents));
}

}  // namespace

Decided<Injection> plan_injection(const InjectionInput& input, const Json& pod,
                                  const PodAnnotations& annotations) {
  const auto wanted = select_frameworks(input, annotations);
  if (!wanted) return tl::unexpected(wanted.error());
  // Without storage pods share what they compile by the framework's own remote cache alone.
  if (!input.cache->spec.storage) return plan_remote_only(input, pod, annotations, *wanted);
  const auto store = store_of(input, annotations);
  if (!store) return tl::unexpected(store.error());
  const bool needs_mapping = store->volume() != nullptr && has_user_namespace(pod);
  if (needs_mapping && !input.cache->spec.storage->allow_user_namespaces) {
    return skip(InjectionReason::kUserNamespace);
  }
  auto selection = select_containers(pod, annotations, input.settings);
  if (!selection) return tl::unexpected(selection.error());
  const auto frameworks = without_own_caches(pod, *selection, annotations, *wanted);
  if (!frameworks) return tl::unexpected(frameworks.error());
  const auto directories = plan_directories(pod, *selection, *frameworks);
  if (!directories) return tl::unexpected(directories.error());
  const bool reads_only = annotations.mode == api::Mode::kReadOnly;
  Injection injection;
  const DeliveryChoice delivery =
      choose_delivery(annotations.delivery.value_or(input.cache->spec.delivery), pod, *directories);
  const bool one_container = delivery.delivery == api::Delivery::kSidecar;
  const OwnFolders own{.spool = store->registry() != nullptr && !reads_only,
                       .state = one_container};
  const auto empty_dirs = our_empty_dirs(*directories, own);
  injection.volumes = pod_volumes(empty_dirs, *store);
  const auto names = check_names(pod, injection.volumes, annotations);
  if (!names) return tl::unexpected(names.error());

  const std::string ns(input.ns);
  const ResourceWishes wishes = resource_wishes(pod, input.cache->spec.resources);
  injection.resources = plan_resources({pod, *selection, input.facts, input.settings,
                                        wishes.resources, directories->in_memory, one_container});
  const api::AgentConfig config =
      make_agent_config({pod, ns, *input.cache, *store, annotations, *selection, *directories,
                         *frameworks, input.settings, injection.resources.more_storage});
  const Json& first = container_at(pod, selection->containers.front());
  const std::string environment = environment_of(config, *store, first);
  const std::string security = agent_security_context(first, pod);
  const SaverUser saver = reads_only ? SaverUser{} : saver_user(pod, *selection, *input.cache);
  const std::string saver_security = agent_security_context(first, pod, saver.user);

  // The saver is added in mode ReadOnly too, to report the effect of the load.
  const AgentContainerInput agents{
      input.settings, environment,    *directories, *store, injection.resources,
      security,       saver_security, reads_only,   own,    load_limit(config.load)};
  injection.cache = annotations.cache;
  injection.after = annotations.after;
  injection.selection = std::move(*selection);
  add_agents(agents, one_container, injection);
  injection.mounts = directories->mounts;
  const auto redis = redis_for(input, annotations);
  const bool start_kit = annotations.start_kit.value_or(input.cache->spec.start_kit);
  for (const size_t index : injection.selection.containers) {
    injection.environments.push_back(app_environment(
        container_at(pod, index), directories->directories, *frameworks, redis, start_kit));
  }
  injection.safe_to_evict = safe_to_evict_volumes(pod, empty_dirs);
  injection.warnings =
      trap_warnings({pod, injection.selection, *frameworks, *wanted, input.settings.traps});
  const bool joins_redis = !redis.host.empty() && annotations.mode == api::Mode::kReadWrite;
  warn_of_redis(input, pod, *frameworks, joins_redis, injection);
  for (std::string& warning : pod_group_warnings(pod)) {
    injection.warnings.push_back(std::move(warning));
  }
  for (const std::string& warning : {delivery.warning, saver.warning, wishes.warning}) {
    if (!warning.empty()) injection.warnings.push_back(warning);
  }
  for (std::string& warning : injection.resources.warnings) {
    injection.warnings.push_back(std::move(warning));
  }
  injection.status = status_of(pod, injection, config, input.settings);
  auto offers =
      start_kit_offers(pod, injection.selection.containers, directories->directories, *frameworks);
  if (!start_kit && !offers.empty()) injection.status.kit_left_off = std::move(offers);
  return injection;
}

}  // namespace compilecache::webhook
