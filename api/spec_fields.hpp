#pragma once

#include <bit>
#include <initializer_list>
#include <string_view>

#include "api/archive_key.hpp"
#include "api/compile_cache.hpp"
#include "api/fields.hpp"
#include "api/repository_name.hpp"

// The fields of a CompileCache's spec, as crds/compilecaches.yaml has them; a test holds the two
// together. The checks are what the schema refuses too, repeated for objects that no API server has
// seen. Internal to api/.

namespace compilecache::api {

inline bool is_key_part(std::string_view part) {
  for (const std::string_view known : std::initializer_list<std::string_view>{
           kGpuProductPart, kGpuCountPart, kArchitecturePart, kImagePart, kWorkloadPart,
           kDriverVersionPart, kCpuFeaturesPart}) {
    if (part == known) return true;
  }
  return false;
}

template <int kLeast, int kMost>
std::string unless_between(const int& value) {
  if (value >= kLeast && value <= kMost) return {};
  return "must be from " + std::to_string(kLeast) + " to " + std::to_string(kMost);
}

inline constexpr char kStorageMissing[] =
    "is required; name a PersistentVolumeClaim of the namespace in spec.storage.claimName or a "
    "registry in spec.storage.registry, write `storage: {}` for the installation's own registry, "
    "or name a Redis server in spec.remoteCache.redis";

template <>
inline constexpr auto kFields<RegistrySpec> =
    std::tuple{field_of("repository", &RegistrySpec::repository,
                        [](const std::string& repository) -> std::string {
                          const auto name = parse_repository(repository);
                          return name ? "" : name.error().message;
                        }),
               field_of("secretName", &RegistrySpec::secret_name),
               field_of("caConfigMapName", &RegistrySpec::ca_config_map_name)};

inline std::string unless_inside(const std::string& path) {
  const bool inside = !path.starts_with('/') && path.find("..") == std::string::npos;
  return inside ? "" : "must be a relative path without \"..\"";
}

template <>
inline constexpr auto kFields<CopySource> = std::tuple{
    field_of("cache", &CopySource::cache,
             [](const std::string& name) -> std::string {
               const bool one = name.find('/') == std::string::npos && name != "." && name != "..";
               return one ? "" : "must be the name of a CompileCache";
             }),
    field_of("claimName", &CopySource::claim_name),
    field_of("subPath", &CopySource::sub_path, unless_inside),
    field_of("registry", &CopySource::registry)};

template <>
inline constexpr auto kFields<CompileCacheSpec::Storage> = std::tuple{
    field_of("claimName", &CompileCacheSpec::Storage::claim_name),
    field_of("registry", &CompileCacheSpec::Storage::registry),
    field_of("subPath", &CompileCacheSpec::Storage::sub_path, unless_inside),
    field_of("allowReadWriteOnce", &CompileCacheSpec::Storage::allow_read_write_once),
    field_of("allowNodeAffinity", &CompileCacheSpec::Storage::allow_node_affinity),
    field_of("allowUserNamespaces", &CompileCacheSpec::Storage::allow_user_namespaces),
    field_of("adopt", &CompileCacheSpec::Storage::adopt),
    field_of("copyFrom", &CompileCacheSpec::Storage::copy_from,
             [](const std::optional<CopySource>& source) -> std::string {
               if (!source) return "";
               if (source->claim_name.empty() && !source->sub_path.empty())
                 return "subPath is of a claim; name one in claimName or leave it out";
               const bool both = !source->claim_name.empty() && source->registry;
               return both ? "claimName and registry exclude each other; leave one out" : "";
             })};

// "" where the fields of spec.storage go together.
inline std::string storage_trouble(const StorageSpec& storage) {
  if (storage.claim_name.empty()) {
    const bool of_a_volume = !storage.sub_path.empty() || storage.allow_read_write_once ||
                             storage.allow_node_affinity || storage.allow_user_namespaces;
    return of_a_volume ? "subPath, allowReadWriteOnce, allowNodeAffinity and allowUserNamespaces "
                         "are of a claim; name one in claimName or leave them out"
                       : "";
  }
  return storage.registry ? "claimName and registry exclude each other; leave one out" : "";
}

template <>
inline constexpr auto kFields<CompileCacheSpec::Load> =
    std::tuple{field_of("fallback", &CompileCacheSpec::Load::fallback),
               field_of("waitForFirst", &CompileCacheSpec::Load::wait_for_first),
               field_of("timeout", &CompileCacheSpec::Load::timeout)};

template <>
inline constexpr auto kFields<CompileCacheSpec::Save> = std::tuple{
    field_of("policy", &CompileCacheSpec::Save::policy),
    field_of("quietPeriod", &CompileCacheSpec::Save::quiet_period),
    field_of("atTermination", &CompileCacheSpec::Save::at_termination),
    field_of("maxArchiveSize", &CompileCacheSpec::Save::max_archive_size),
    field_of("lockTimeout", &CompileCacheSpec::Save::lock_timeout),
    field_of("allowedServiceAccounts", &CompileCacheSpec::Save::allowed_service_accounts),
    field_of("runAsUser", &CompileCacheSpec::Save::run_as_user,
             [](const std::optional<int64_t>& user) -> std::string {
               if (!user || is_user(*user)) return "";
               return "must be from 0 to " + std::to_string(kLargestUser);
             })};

template <>
inline constexpr auto kFields<CompileCacheSpec::Retention> =
    std::tuple{field_of("unusedFor", &CompileCacheSpec::Retention::unused_for),
               field_of("maxTotalSize", &CompileCacheSpec::Retention::max_total_size),
               field_of("keepPerGPU", &CompileCacheSpec::Retention::keep_per_gpu,
                        [](const int& number) -> std::string {
                          return number < 1 ? "must be at least 1" : "";
                        }),
               field_of("incompleteTimeout", &CompileCacheSpec::Retention::incomplete_timeout),
               field_of("sweepInterval", &CompileCacheSpec::Retention::sweep_interval)};

template <>
inline constexpr auto kFields<CompileCacheSpec::Redis> =
    std::tuple{field_of("host", &CompileCacheSpec::Redis::host),
               field_of("port", &CompileCacheSpec::Redis::port)};

template <>
inline constexpr auto kFields<CompileCacheSpec::RemoteCache> =
    std::tuple{field_of("redis", &CompileCacheSpec::RemoteCache::redis)};

template <>
inline constexpr auto kFields<CompileCacheSpec::Compression> =
    std::tuple{field_of("level", &CompileCacheSpec::Compression::level, unless_between<1, 19>),
               field_of("threads", &CompileCacheSpec::Compression::threads, unless_between<1, 16>),
               field_of("window", &CompileCacheSpec::Compression::window,
                        [](const uint64_t& bytes) -> std::string {
                          const bool known = bytes >= (1U << 20) && bytes <= (16U << 20) &&
                                             std::has_single_bit(bytes);
                          return known ? "" : "must be one of 1Mi, 2Mi, 4Mi, 8Mi, 16Mi";
                        })};

template <>
inline constexpr auto kFields<ResourceAmounts> =
    std::tuple{field_of("cpu", &ResourceAmounts::cpu), field_of("memory", &ResourceAmounts::memory),
               field_of("ephemeral-storage", &ResourceAmounts::ephemeral_storage)};

template <>
inline constexpr auto kFields<ContainerWish> = std::tuple{
    field_of("requests", &ContainerWish::requests), field_of("limits", &ContainerWish::limits)};

template <>
inline constexpr auto kFields<AgentResources> =
    std::tuple{field_of("load", &AgentResources::load), field_of("save", &AgentResources::save)};

template <>
inline constexpr auto kFields<CompileCacheSpec::Trust> =
    std::tuple{field_of("publicKeys", &CompileCacheSpec::Trust::public_keys)};

template <>
inline constexpr auto kFields<CompileCacheSpec> =
    std::tuple{field_of("storage", &CompileCacheSpec::storage,
                        [](const std::optional<StorageSpec>& storage) -> std::string {
                          return storage ? storage_trouble(*storage) : "";
                        }),
               field_of("frameworks", &CompileCacheSpec::frameworks),
               field_of("version", &CompileCacheSpec::version),
               field_of("key", &CompileCacheSpec::key,
                        [](const std::vector<std::string>& parts) -> std::string {
                          for (const std::string& part : parts) {
                            if (!is_key_part(part)) {
                              return "\"" + part + "\" is not a part that keys can have";
                            }
                          }
                          return "";
                        }),
               field_of("load", &CompileCacheSpec::load),
               field_of("save", &CompileCacheSpec::save),
               field_of("retention", &CompileCacheSpec::retention),
               field_of("remoteCache", &CompileCacheSpec::remote_cache),
               field_of("compression", &CompileCacheSpec::compression),
               field_of("resources", &CompileCacheSpec::resources,
                        [](const AgentResources& resources) { return trouble_of(resources); }),
               field_of("startKit", &CompileCacheSpec::start_kit),
               field_of("trust", &CompileCacheSpec::trust),
               field_of("delivery", &CompileCacheSpec::delivery)};

}  // namespace compilecache::api
