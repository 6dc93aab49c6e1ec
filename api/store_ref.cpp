#include "api/store_ref.hpp"

#include "api/compile_cache.hpp"
#include "api/repository_name.hpp"

namespace compilecache::api {
namespace {

// Below it each CompileCache has a repository of its own, so that registries can grant rights by
// namespace.
std::string below(const std::string& parent, const ObjectMeta& metadata) {
  return (parent.empty() ? "" : parent + "/") + metadata.ns + "/" + metadata.name;
}

VolumeRef volume_of(const CompileCache& cache) {
  const StorageSpec& storage = *cache.spec.storage;
  const std::string parent = storage.sub_path.empty() ? "" : storage.sub_path + "/";
  return {cache.metadata.ns, storage.claim_name, parent + cache.metadata.name};
}

std::optional<StoreRef> registry_of(const CompileCache& cache) {
  const RegistrySpec& registry = *cache.spec.storage->registry;
  const auto name = parse_repository(registry.repository);
  if (!name) return std::nullopt;  // parse_compile_cache() refuses it, with the message
  return RegistryRef{.host = name->host,
                     .repository = below(name->path, cache.metadata),
                     .parent = name->path,
                     .secret = registry.secret_name,
                     .ca_config_map = registry.ca_config_map_name};
}

// The CompileCache that has the archives which are to be copied, as far as its store goes.
std::optional<CompileCache> copied_cache(const CompileCache& cache) {
  if (!cache.spec.storage || !cache.spec.storage->copy_from) return std::nullopt;
  const CopySource& source = *cache.spec.storage->copy_from;
  CompileCache copied;
  copied.metadata.ns = cache.metadata.ns;
  copied.metadata.name = source.cache.empty() ? cache.metadata.name : source.cache;
  copied.spec.storage = {
      .claim_name = source.claim_name, .registry = source.registry, .sub_path = source.sub_path};
  return copied;
}

}  // namespace

std::string StoreRef::id() const {
  return std::visit([](const auto& kind) { return kind.id(); }, *this);
}

std::optional<StoreRef> store_of(const CompileCache& cache, const OwnRegistry& own) {
  const auto& storage = cache.spec.storage;
  if (!storage) return std::nullopt;
  if (!storage->claim_name.empty()) return volume_of(cache);
  if (storage->registry) return registry_of(cache);
  if (!own.installed()) return std::nullopt;
  return RegistryRef{.host = own.host,
                     .repository = below("", cache.metadata),
                     .parent = "",
                     .own = true,
                     .address = own.address};
}

std::optional<StoreRef> copy_source_of(const CompileCache& cache, const OwnRegistry& own) {
  const auto copied = copied_cache(cache);
  return copied ? store_of(*copied, own) : std::nullopt;
}

std::string copy_source_in_words(const CompileCache& cache) {
  const auto copied = copied_cache(cache);
  if (!copied) return "";
  const std::string& path = copied->spec.storage->sub_path;
  return store_in_words(*copied) + (path.empty() ? "" : "/" + path) + ", " + copied->metadata.name;
}

bool copies_from_itself(const CompileCache& cache) {
  const auto copied = copied_cache(cache);
  if (!copied || copied->metadata.name != cache.metadata.name) return false;
  const StorageSpec &there = *copied->spec.storage, &here = *cache.spec.storage;
  const auto repository = [](const StorageSpec& storage) {
    return storage.registry ? storage.registry->repository : std::string();
  };
  return there.claim_name == here.claim_name && there.sub_path == here.sub_path &&
         repository(there) == repository(here);
}

std::string store_in_words(const CompileCache& cache) {
  const auto& storage = cache.spec.storage;
  if (!storage) return "";
  if (!storage->claim_name.empty()) return "claim " + storage->claim_name;
  return storage->registry ? storage->registry->repository : "registry";
}

}  // namespace compilecache::api
