#include "podspec/volumes.hpp"

#include "api/names.hpp"
#include "base/json_writer.hpp"

namespace compilecache::podspec {

namespace {

// The kubelet renews it at 80 % of its life.
constexpr int kTokenSeconds = 3600;

// A volume whose source is the object that `write` writes.
template <typename Write>
Volume volume(const std::string& name, const char* source, const Write& write) {
  JsonWriter out;
  out.begin_object();
  out.field("name", name);
  out.key(source);
  out.begin_object();
  write(out);
  out.end_object();
  out.end_object();
  return {name, out.text()};
}

// A Secret or ConfigMap, or an empty folder where it does not exist: the pod starts all the same.
// Without `key` all that it has.
Volume optional_object(const std::string& name, const char* source, const char* name_field,
                       const std::string& object, const char* key) {
  return volume(name, source, [&](JsonWriter& out) {
    if (key != nullptr) {
      out.key("items");
      out.begin_array();
      out.begin_object();
      out.field("key", key);
      out.field("path", key);
      out.end_object();
      out.end_array();
    }
    out.field(name_field, object);
    out.field("optional", true);
  });
}

std::vector<Volume> store_volumes(const api::VolumeRef& store, SecretKeys) {
  return {volume(api::kStoreVolume, "persistentVolumeClaim",
                 [&](JsonWriter& out) { out.field("claimName", store.claim); })};
}

std::vector<Volume> store_volumes(const api::RegistryRef& store, SecretKeys keys) {
  std::vector<Volume> volumes;
  if (!store.secret.empty()) {
    const char* key = keys == SecretKeys::kNeeded ? api::kRegistrySecretKey : nullptr;
    volumes.push_back(
        optional_object(api::kRegistrySecretVolume, "secret", "secretName", store.secret, key));
  }
  if (!store.ca_config_map.empty()) {
    volumes.push_back(optional_object(api::kRegistryCaVolume, "configMap", "name",
                                      store.ca_config_map, api::kRegistryCaKey));
  }
  return volumes;
}

std::vector<Mount> store_mounts(const api::VolumeRef&, bool read_only) {
  return {{api::kStoreVolume, api::kStorePath, read_only}};
}

std::vector<Mount> store_mounts(const api::RegistryRef& store, bool) {
  std::vector<Mount> mounts;
  if (!store.secret.empty()) {
    mounts.push_back({api::kRegistrySecretVolume, api::kRegistrySecretPath, true});
  }
  if (!store.ca_config_map.empty()) {
    mounts.push_back({api::kRegistryCaVolume, api::kRegistryCaPath, true});
  }
  return mounts;
}

Volume token_volume() {
  return volume(api::kTokenVolume, "projected", [](JsonWriter& out) {
    out.key("sources");
    out.begin_array();
    out.begin_object();
    out.key("serviceAccountToken");
    out.begin_object();
    out.field("audience", api::kTokenAudience);
    out.field("expirationSeconds", kTokenSeconds);
    out.field("path", "token");
    out.end_object();
    out.end_object();
    out.end_array();
  });
}

}  // namespace

Volume empty_dir(const std::string& name) {
  return volume(name, "emptyDir", [](JsonWriter&) {});
}

// Under names of their own; a claim that cannot be written to can be copied from.
std::vector<Volume> source_volumes(const api::StoreRef& source) {
  std::vector<Volume> volumes;
  if (const api::VolumeRef* store = source.volume()) {
    volumes.push_back(volume(api::kSourceVolume, "persistentVolumeClaim", [&](JsonWriter& out) {
      out.field("claimName", store->claim);
      out.field("readOnly", true);
    }));
  } else if (const api::RegistryRef* registry = source.registry()) {
    if (!registry->secret.empty()) {
      volumes.push_back(optional_object(api::kSourceSecretVolume, "secret", "secretName",
                                        registry->secret, nullptr));
    }
    if (!registry->ca_config_map.empty()) {
      volumes.push_back(optional_object(api::kSourceCaVolume, "configMap", "name",
                                        registry->ca_config_map, api::kRegistryCaKey));
    }
  }
  return volumes;
}

std::vector<Mount> source_mounts(const api::StoreRef& source) {
  std::vector<Mount> mounts;
  const api::RegistryRef* registry = source.registry();
  if (registry == nullptr) return {{api::kSourceVolume, api::kSourcePath, true}};
  if (!registry->secret.empty())
    mounts.push_back({api::kSourceSecretVolume, api::kSourceSecretPath, true});
  if (!registry->ca_config_map.empty())
    mounts.push_back({api::kSourceCaVolume, api::kSourceCaPath, true});
  return mounts;
}

std::vector<Volume> agent_volumes(const api::StoreRef& store, SecretKeys keys) {
  auto volumes = std::visit([&](const auto& kind) { return store_volumes(kind, keys); }, store);
  volumes.push_back(token_volume());
  return volumes;
}

std::vector<Mount> agent_mounts(const api::StoreRef& store, bool store_read_only) {
  auto mounts =
      std::visit([&](const auto& kind) { return store_mounts(kind, store_read_only); }, store);
  mounts.push_back({api::kTokenVolume, api::kTokenPath, true});
  return mounts;
}

}  // namespace compilecache::podspec
