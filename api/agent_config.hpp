#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "api/choices.hpp"
#include "api/compile_cache.hpp"
#include "api/names.hpp"
#include "api/store_ref.hpp"
#include "base/error.hpp"
#include "frameworks/framework.hpp"

// The configuration that the webhook gives to the loader and the saver, and the operator to a sweep
// Job: one JSON value in the variable COMPILECACHE_CONFIG. It is no ConfigMap, because a missing
// one would block the pod.

namespace compilecache::api {

struct AgentConfig {
  std::string cache;  // CompileCache
  std::string ns;
  std::string cache_uid;

  // The agent API. The address is the Service's ClusterIP (hostNetwork pods have no cluster DNS);
  // TLS is verified by the name. Empty address: no operator, only the index on a volume.
  std::string operator_address;
  int operator_port = 443;
  std::string operator_name;
  std::string operator_ca;
  // Where any replica answers which archive to load while the leader does not, under the same port,
  // name and authorities. Empty: nowhere.
  std::string load_address;
  std::string token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";

  // Where the archives are; always set by the webhook. A volume is mounted at `store_mount`; the
  // credentials and the authorities of a registry where names.hpp says. The installation's own
  // registry is served under the same authorities as the agent API (`operator_ca`).
  std::optional<StoreRef> store;
  std::string store_mount = kStorePath;
  bool index_fallback = true;  // false for a registry, which has no index
  // Whether the loader asks the operator which archive to load. False where pods of the namespace
  // cannot reach the operator: it would wait for nothing. The saver tries all the same.
  bool ask_operator = true;

  struct Directory {
    frameworks::Framework framework;
    std::string path;  // as the loader, the saver and the app see it
    bool operator==(const Directory&) const = default;
  };
  std::vector<Directory> directories;
  std::string control_path = "/compilecache/cache/control";

  Mode mode = Mode::kReadWrite;
  KeyBasis key_basis;
  // The chosen containers' values of Framework::cpu_variables: "ATEN_CPU_CAPABILITY=avx2". A value
  // that is not literal is "?"; then nobody knows for which CPU they compile.
  std::vector<std::string> cpu_variables;

  // The CompileCache's own, with what the pod's annotations and its kind change.
  CompileCacheSpec::Load load;
  CompileCacheSpec::Save save;
  CompileCacheSpec::Compression compression;
  // The pod's; 0: none. An archive over half of it is not loaded.
  int64_t ephemeral_limit_bytes = 0;
  // Whether the pod is one of a group whose pods run only together (docs/how-to/ranks.md).
  bool in_group = false;
  // Until this pod has saved for the first time; 0: save.quiet_period.
  milliseconds first_quiet_period{0};

  // Sweep Jobs only.
  struct Sweep {
    std::string cluster_uid;  // of kube-system: whose store this is
    bool adopt = false;
    bool adopted = false;  // that was done before: a store of another owner is a conflict now
    // Where archives are to be copied from, mounted at kSourcePath as names.hpp says; nothing: from
    // nowhere.
    std::optional<StoreRef> copy_from;
    std::string copy_name;      // of that, as the operator remembers it
    milliseconds copy_time{0};  // in which the last archive is begun; 0: as long as it takes
    std::vector<std::string> trusted_keys;  // spec.trust.publicKeys
    bool operator==(const Sweep&) const = default;
  } sweep;

  bool operator==(const AgentConfig&) const = default;
};

// The folder of a store on a volume as our containers see it: "<mount>/<subPath>/<cache>".
std::string store_directory(const AgentConfig& config);

// The same of a store on a volume from which a sweep Job copies; "" where it copies from none. A
// claim that has both stores is mounted once.
std::string source_directory(const AgentConfig& config);

// Fails with kInvalid, naming the field.
Result<AgentConfig> parse_agent_config(const std::string& text);
std::string dump(const AgentConfig& config);

// The content of the status annotation, which the webhook writes. The operator reads there how to
// serve the pod.
struct InjectionStatus {
  std::string version;  // of the operator that injected
  std::string hash;     // of the injection; where it is equal nothing has to be injected again
  std::vector<std::string> init_containers, volumes, containers;
  // The additions to the chosen containers, so that they can be taken out again:
  // "container:VARIABLE", and the paths at which our volumes are mounted.
  std::vector<std::string> variables, mounts;
  std::vector<std::string> frameworks;
  // What spec.startKit would add: "VARIABLE=1, since vLLM 0.26: what it brings". Nothing: it is on,
  // or the frameworks have none.
  std::optional<std::vector<std::string>> kit_left_off;
  Mode mode = Mode::kReadWrite;
  int64_t wait_for_first_ms = 0;
  KeyBasis key_basis;
  bool operator==(const InjectionStatus&) const = default;

  // Whether one sidecar loads and saves: there is no container that only loads.
  [[nodiscard]] bool one_container() const {
    return init_containers.size() == 1 && init_containers.front() == kSaverContainer;
  }
};
Result<InjectionStatus> parse_injection_status(const std::string& text);
std::string dump(const InjectionStatus& status);

}  // namespace compilecache::api
