#include "cli/archives/copy_plan.hpp"

#include <nlohmann/json.hpp>

#include "api/names.hpp"

namespace compilecache::cli {
namespace {

using nlohmann::json;

json registry_json(const std::string& repository, const std::string& secret,
                   const std::string& ca_config_map) {
  json registry = {{"repository", repository}};
  if (!secret.empty()) registry["secretName"] = secret;
  if (!ca_config_map.empty()) registry["caConfigMapName"] = ca_config_map;
  return registry;
}

// With a claim what the source says of claims holds again; else it would be refused.
json storage_json(const json& before, const StoreChoice& store) {
  if (!store.repository.empty()) {
    return {{"registry", registry_json(store.repository, store.secret, store.ca_config_map)}};
  }
  json storage = json::object();
  if (store.claim.empty()) return storage;
  for (const char* name : {"allowReadWriteOnce", "allowNodeAffinity", "allowUserNamespaces"}) {
    if (before.contains(name)) storage[name] = before.at(name);
  }
  storage["claimName"] = store.claim;
  if (!store.sub_path.empty()) storage["subPath"] = store.sub_path;
  return storage;
}

}  // namespace

Result<json> copy_from(const api::CompileCache& source) {
  const auto& storage = source.spec.storage;
  if (!storage) {
    return fail(ErrorCode::kInvalid,
                "CompileCache " + source.metadata.name + " keeps no archives (it has no storage)");
  }
  json from = {{"cache", source.metadata.name}};
  if (!storage->claim_name.empty()) {
    from["claimName"] = storage->claim_name;
    if (!storage->sub_path.empty()) from["subPath"] = storage->sub_path;
  } else if (storage->registry) {
    from["registry"] = registry_json(storage->registry->repository, storage->registry->secret_name,
                                     storage->registry->ca_config_map_name);
  }
  return from;
}

json copied_cache(const json& source, const std::string& name, const StoreChoice& store,
                  const json& from) {
  json spec = source.at("spec");
  json storage = storage_json(spec.value("storage", json::object()), store);
  storage["copyFrom"] = from;
  spec["storage"] = std::move(storage);
  return {{"apiVersion", api::kApiVersion},
          {"kind", "CompileCache"},
          {"metadata", {{"name", name}, {"namespace", source.at("metadata").at("namespace")}}},
          {"spec", spec}};
}

CopyState copy_state(const api::CompileCache& cache, int64_t generation) {
  const auto* condition =
      api::find_condition(cache.status.conditions, api::kArchivesCopiedCondition);
  if (condition == nullptr || condition->observed_generation < generation) return {};
  using Kind = CopyState::Kind;
  const Kind kind = condition->status == "True"    ? Kind::kDone
                    : condition->status == "False" ? Kind::kFailed
                                                   : Kind::kUnderWay;
  return {kind, condition->message};
}

}  // namespace compilecache::cli
