#include "api/agent_config.hpp"

#include "api/json_fields.hpp"
#include "api/names.hpp"

namespace compilecache::frameworks {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Framework::Completion, directory, marker)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Framework, name, env, directory_variable,
                                                entry_directories, entry_files, never_pack,
                                                temporary, build_directories, completions,
                                                elf_files, key_parts)

}  // namespace compilecache::frameworks

namespace compilecache::api {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(KeyBasis, parts, gpu_resource, gpu_count, image,
                                                workload, version, directories)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AgentConfig::Directory, framework, path)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(AgentConfig::Sweep, cluster_uid, adopt)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    AgentConfig, cache, ns, cache_uid, operator_address, operator_port, operator_name, operator_ca,
    token_file, store_path, index_fallback, directories, control_path, mode, key_basis,
    fallback_compatible, wait_for_first_ms, load_timeout_ms, ephemeral_limit_bytes, save_policy,
    quiet_period_ms, at_termination_ms, max_archive_bytes, compression_level, sweep)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(InjectionStatus, version, hash, init_containers,
                                                volumes, containers, variables, mounts, frameworks,
                                                mode, wait_for_first_ms, key_basis)

namespace {

template <typename T>
Result<T> parse_as(const std::string& text, const std::string& what) {
  auto object = parse_json(text, what);
  if (!object) return unexpected(object.error());
  try {
    return object->get<T>();
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalid, "reading " + what + ": " + error.what());
  }
}

}  // namespace

std::string store_path(const CompileCache& cache) {
  std::string path = kStorePath;
  if (!cache.spec.storage.sub_path.empty()) path += "/" + cache.spec.storage.sub_path;
  return path + "/" + cache.metadata.name;
}

Result<AgentConfig> parse_agent_config(const std::string& text) {
  return parse_as<AgentConfig>(text, "the agent's configuration (COMPILECACHE_CONFIG)");
}

std::string dump(const AgentConfig& config) { return nlohmann::json(config).dump(); }

Result<InjectionStatus> parse_injection_status(const std::string& text) {
  return parse_as<InjectionStatus>(text, "the annotation compilecache.dev/status");
}

std::string dump(const InjectionStatus& status) { return nlohmann::json(status).dump(); }

}  // namespace compilecache::api
