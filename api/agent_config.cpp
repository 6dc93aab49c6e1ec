#include "api/agent_config.hpp"

#include "api/fields.hpp"
#include "api/spec_fields.hpp"

namespace compilecache::api {

// The names of the fields in JSON, in the order of the names.

using Framework = frameworks::Framework;

template <>
inline constexpr auto kFields<Framework::Completion> =
    std::tuple{field_of("directory", &Framework::Completion::directory),
               field_of("marker", &Framework::Completion::marker)};

template <>
inline constexpr auto kFields<Framework> =
    std::tuple{field_of("build_directories", &Framework::build_directories),
               field_of("completions", &Framework::completions),
               field_of("derived_files", &Framework::derived_files),
               field_of("directory_variable", &Framework::directory_variable),
               field_of("elf_files", &Framework::elf_files),
               field_of("entry_directories", &Framework::entry_directories),
               field_of("entry_files", &Framework::entry_files),
               field_of("env", &Framework::env),
               field_of("index_files", &Framework::index_files),
               field_of("key_factors", &Framework::key_factors),
               field_of("key_parts", &Framework::key_parts),
               field_of("must_agree", &Framework::must_agree),
               field_of("name", &Framework::name),
               field_of("named_by_content", &Framework::named_by_content),
               field_of("rank_directories", &Framework::rank_directories),
               field_of("never_pack", &Framework::never_pack),
               field_of("not_compiled", &Framework::not_compiled),
               field_of("portable_files", &Framework::portable_files),
               field_of("only_from_warm", &Framework::only_from_warm),
               field_of("stream_files", &Framework::stream_files),
               field_of("temporary", &Framework::temporary),
               field_of("unit_directories", &Framework::unit_directories)};

template <>
inline constexpr auto kFields<KeyBasis> = std::tuple{
    field_of("claims", &KeyBasis::claims),       field_of("directories", &KeyBasis::directories),
    field_of("gpu_count", &KeyBasis::gpu_count), field_of("gpu_resource", &KeyBasis::gpu_resource),
    field_of("image", &KeyBasis::image),         field_of("parts", &KeyBasis::parts),
    field_of("version", &KeyBasis::version),     field_of("workload", &KeyBasis::workload)};

template <>
inline constexpr const char* kKind<VolumeRef> = "volume";
template <>
inline constexpr auto kFields<VolumeRef> =
    std::tuple{field_of("claim", &VolumeRef::claim), field_of("namespace", &VolumeRef::ns),
               field_of("path", &VolumeRef::path)};

template <>
inline constexpr const char* kKind<RegistryRef> = "registry";
template <>
inline constexpr auto kFields<RegistryRef> =
    std::tuple{field_of("address", &RegistryRef::address),
               field_of("ca_config_map", &RegistryRef::ca_config_map),
               field_of("host", &RegistryRef::host),
               field_of("own", &RegistryRef::own),
               field_of("parent", &RegistryRef::parent),
               field_of("repository", &RegistryRef::repository),
               field_of("secret", &RegistryRef::secret)};

template <>
inline constexpr auto kFields<AgentConfig::Directory> =
    std::tuple{field_of("framework", &AgentConfig::Directory::framework),
               field_of("path", &AgentConfig::Directory::path)};

template <>
inline constexpr auto kFields<AgentConfig::Sweep> =
    std::tuple{field_of("adopt", &AgentConfig::Sweep::adopt),
               field_of("adopted", &AgentConfig::Sweep::adopted),
               field_of("cluster_uid", &AgentConfig::Sweep::cluster_uid),
               field_of("copy_from", &AgentConfig::Sweep::copy_from),
               field_of("copy_name", &AgentConfig::Sweep::copy_name),
               field_of("copy_time", &AgentConfig::Sweep::copy_time),
               field_of("trusted_keys", &AgentConfig::Sweep::trusted_keys)};

template <>
inline constexpr auto kFields<AgentConfig> =
    std::tuple{field_of("ask_operator", &AgentConfig::ask_operator),
               field_of("cache", &AgentConfig::cache),
               field_of("cache_uid", &AgentConfig::cache_uid),
               field_of("compression", &AgentConfig::compression),
               field_of("control_path", &AgentConfig::control_path),
               field_of("cpu_variables", &AgentConfig::cpu_variables),
               field_of("directories", &AgentConfig::directories),
               field_of("ephemeral_limit_bytes", &AgentConfig::ephemeral_limit_bytes),
               field_of("first_quiet_period", &AgentConfig::first_quiet_period),
               field_of("in_group", &AgentConfig::in_group),
               field_of("index_fallback", &AgentConfig::index_fallback),
               field_of("key_basis", &AgentConfig::key_basis),
               field_of("load", &AgentConfig::load),
               field_of("load_address", &AgentConfig::load_address),
               field_of("mode", &AgentConfig::mode),
               field_of("ns", &AgentConfig::ns),
               field_of("operator_address", &AgentConfig::operator_address),
               field_of("operator_ca", &AgentConfig::operator_ca),
               field_of("operator_name", &AgentConfig::operator_name),
               field_of("operator_port", &AgentConfig::operator_port),
               field_of("save", &AgentConfig::save),
               field_of("store", &AgentConfig::store),
               field_of("store_mount", &AgentConfig::store_mount),
               field_of("sweep", &AgentConfig::sweep),
               field_of("token_file", &AgentConfig::token_file)};

template <>
inline constexpr auto kFields<InjectionStatus> =
    std::tuple{field_of("containers", &InjectionStatus::containers),
               field_of("frameworks", &InjectionStatus::frameworks),
               field_of("hash", &InjectionStatus::hash),
               field_of("init_containers", &InjectionStatus::init_containers),
               field_of("key_basis", &InjectionStatus::key_basis),
               field_of("kit_left_off", &InjectionStatus::kit_left_off),
               field_of("mode", &InjectionStatus::mode),
               field_of("mounts", &InjectionStatus::mounts),
               field_of("variables", &InjectionStatus::variables),
               field_of("version", &InjectionStatus::version),
               field_of("volumes", &InjectionStatus::volumes),
               field_of("wait_for_first_ms", &InjectionStatus::wait_for_first_ms)};

namespace {

template <typename T>
Result<T> parse_as(const std::string& text, const std::string& what) {
  const auto object = parse_json(text, what);
  if (!object) return unexpected(object.error());
  T parsed;
  FieldReader reader("");
  reader.read(*object, parsed);
  if (reader.error().empty()) return parsed;
  return fail(ErrorCode::kInvalid, "reading " + what + ": " + reader.error());
}

template <typename T>
std::string text_of(const T& object, Write which) {
  JsonWriter out(4096);
  write_value(out, object, which);
  return out.text();
}

}  // namespace

std::string store_directory(const AgentConfig& config) {
  const VolumeRef* volume = config.store ? config.store->volume() : nullptr;
  const bool below = volume != nullptr && !volume->path.empty();
  return below ? config.store_mount + "/" + volume->path : config.store_mount;
}

std::string source_directory(const AgentConfig& config) {
  const auto& from = config.sweep.copy_from;
  const VolumeRef* source = from ? from->volume() : nullptr;
  if (source == nullptr) return "";
  const VolumeRef* here = config.store ? config.store->volume() : nullptr;
  const bool same = here != nullptr && here->claim == source->claim;
  return (same ? config.store_mount : kSourcePath) + "/" + source->path;
}

Result<AgentConfig> parse_agent_config(const std::string& text) {
  return parse_as<AgentConfig>(text, "the agent's configuration (COMPILECACHE_CONFIG)");
}

// Webhook and agent are of one version, so that the agent's defaults are those of the webhook.
std::string dump(const AgentConfig& config) { return text_of(config, Write::kUnusual); }

Result<InjectionStatus> parse_injection_status(const std::string& text) {
  return parse_as<InjectionStatus>(text, "the annotation compilecache.dev/status");
}

// Read by operators of other versions, too, whose defaults may be others.
std::string dump(const InjectionStatus& status) { return text_of(status, Write::kAll); }

}  // namespace compilecache::api
