#include "api/agent_config.hpp"

#include <concepts>
#include <type_traits>

#include "api/json_fields.hpp"
#include "api/json_words.hpp"
#include "api/names.hpp"
#include "base/json_writer.hpp"

namespace compilecache::api {

namespace {

using frameworks::Framework;
using nlohmann::json;

// T or const T: what is read into, and what is written.
template <typename Object, typename T>
concept Is = std::same_as<std::remove_const_t<Object>, T>;

// The fields of each struct, once for reading and for writing, in the order of their names.

template <typename Visit>
void visit_fields(Is<Framework::Completion> auto& completion, Visit&& visit) {
  visit("directory", completion.directory);
  visit("marker", completion.marker);
}

template <typename Visit>
void visit_fields(Is<Framework> auto& framework, Visit&& visit) {
  visit("build_directories", framework.build_directories);
  visit("completions", framework.completions);
  if (!std::is_const_v<std::remove_reference_t<decltype(framework)>> ||
      !framework.derived_files.empty()) {
    visit("derived_files", framework.derived_files);
  }
  visit("directory_variable", framework.directory_variable);
  visit("elf_files", framework.elf_files);
  visit("entry_directories", framework.entry_directories);
  visit("entry_files", framework.entry_files);
  visit("env", framework.env);
  // The text is in every pod, and few have any.
  if (!std::is_const_v<std::remove_reference_t<decltype(framework)>> ||
      !framework.key_factors.empty()) {
    visit("key_factors", framework.key_factors);
  }
  visit("key_parts", framework.key_parts);
  visit("name", framework.name);
  visit("never_pack", framework.never_pack);
  visit("temporary", framework.temporary);
}

template <typename Visit>
void visit_fields(Is<KeyBasis> auto& basis, Visit&& visit) {
  visit("directories", basis.directories);
  visit("gpu_count", basis.gpu_count);
  visit("gpu_resource", basis.gpu_resource);
  visit("image", basis.image);
  visit("parts", basis.parts);
  visit("version", basis.version);
  visit("workload", basis.workload);
}

template <typename Visit>
void visit_fields(Is<AgentConfig::Directory> auto& directory, Visit&& visit) {
  visit("framework", directory.framework);
  visit("path", directory.path);
}

template <typename Visit>
void visit_fields(Is<AgentConfig::Sweep> auto& sweep, Visit&& visit) {
  visit("adopt", sweep.adopt);
  visit("cluster_uid", sweep.cluster_uid);
}

template <typename Visit>
void visit_fields(Is<AgentConfig> auto& config, Visit&& visit) {
  // The text is in every pod, and hardly anybody changes what is written only where it is unusual.
  static const AgentConfig usual;
  const bool reads = !std::is_const_v<std::remove_reference_t<decltype(config)>>;
  if (reads || !config.ask_operator) visit("ask_operator", config.ask_operator);
  visit("at_termination_ms", config.at_termination_ms);
  visit("cache", config.cache);
  visit("cache_uid", config.cache_uid);
  visit("compression_level", config.compression_level);
  if (reads || config.compression_threads != usual.compression_threads) {
    visit("compression_threads", config.compression_threads);
  }
  if (reads || config.compression_window_bytes != usual.compression_window_bytes) {
    visit("compression_window_bytes", config.compression_window_bytes);
  }
  visit("control_path", config.control_path);
  visit("directories", config.directories);
  visit("ephemeral_limit_bytes", config.ephemeral_limit_bytes);
  visit("fallback_compatible", config.fallback_compatible);
  if (reads || config.first_quiet_period_ms != usual.first_quiet_period_ms) {
    visit("first_quiet_period_ms", config.first_quiet_period_ms);
  }
  visit("index_fallback", config.index_fallback);
  visit("key_basis", config.key_basis);
  visit("load_timeout_ms", config.load_timeout_ms);
  visit("max_archive_bytes", config.max_archive_bytes);
  visit("mode", config.mode);
  visit("ns", config.ns);
  visit("operator_address", config.operator_address);
  visit("operator_ca", config.operator_ca);
  visit("operator_name", config.operator_name);
  visit("operator_port", config.operator_port);
  visit("quiet_period_ms", config.quiet_period_ms);
  visit("save_policy", config.save_policy);
  visit("store_path", config.store_path);
  visit("sweep", config.sweep);
  visit("token_file", config.token_file);
  visit("wait_for_first_ms", config.wait_for_first_ms);
}

template <typename Visit>
void visit_fields(Is<InjectionStatus> auto& status, Visit&& visit) {
  visit("containers", status.containers);
  visit("frameworks", status.frameworks);
  visit("hash", status.hash);
  visit("init_containers", status.init_containers);
  visit("key_basis", status.key_basis);
  visit("mode", status.mode);
  visit("mounts", status.mounts);
  visit("variables", status.variables);
  visit("version", status.version);
  visit("volumes", status.volumes);
  visit("wait_for_first_ms", status.wait_for_first_ms);
}

template <typename T>
concept Struct = requires(T& object) {
  visit_fields(object, [](const char*, auto&) {});
};

template <typename T>
concept ListOfStructs = requires(T& list) {
  requires Struct<typename T::value_type>;
};

// What is missing keeps its default; a wrong type throws.
template <typename T>
void read(const json& from, T& into) {
  if constexpr (Struct<T>) {
    const auto& members = from.get_ref<const json::object_t&>();
    visit_fields(into, [&](const char* name, auto& field) {
      const auto found = members.find(name);
      if (found != members.end()) read(found->second, field);
    });
  } else if constexpr (ListOfStructs<T>) {
    for (const json& item : from.get_ref<const json::array_t&>()) read(item, into.emplace_back());
  } else {
    from.get_to(into);
  }
}

template <typename T>
void write(JsonWriter& out, const T& object) {
  if constexpr (Struct<const T>) {
    out.begin_object();
    visit_fields(object, [&](const char* name, const auto& field) {
      out.key(name);
      write(out, field);
    });
    out.end_object();
  } else if constexpr (ListOfStructs<T>) {
    out.begin_array();
    for (const auto& item : object) write(out, item);
    out.end_array();
  } else if constexpr (Worded<T>) {
    out.value(to_string(object));
  } else {
    out.value(object);
  }
}

template <typename T>
Result<T> parse_as(const std::string& text, const std::string& what) {
  const auto object = parse_json(text, what);
  if (!object) return unexpected(object.error());
  try {
    T parsed;
    read(*object, parsed);
    return parsed;
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorCode::kInvalid, "reading " + what + ": " + error.what());
  }
}

template <typename T>
std::string text_of(const T& object) {
  JsonWriter out(4096);
  write(out, object);
  return out.text();
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

std::string dump(const AgentConfig& config) { return text_of(config); }

Result<InjectionStatus> parse_injection_status(const std::string& text) {
  return parse_as<InjectionStatus>(text, "the annotation compilecache.dev/status");
}

std::string dump(const InjectionStatus& status) { return text_of(status); }

}  // namespace compilecache::api
