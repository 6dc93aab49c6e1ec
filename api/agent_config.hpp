#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "api/choices.hpp"
#include "api/compile_cache.hpp"
#include "base/error.hpp"
#include "frameworks/framework.hpp"

// Everything that the webhook tells the loader and the saver, and the operator a sweep Job: one
// JSON value in the variable COMPILECACHE_CONFIG. Plain values: a ConfigMap that is missing would
// block the pod.

namespace compilecache::api {

struct AgentConfig {
  std::string cache;  // CompileCache
  std::string ns;
  std::string cache_uid;

  // The agent API. The address is the Service's ClusterIP (hostNetwork pods have no cluster DNS);
  // TLS is verified by the name. Empty address: no operator, only the index on the volume.
  std::string operator_address;
  int operator_port = 443;
  std::string operator_name;
  std::string operator_ca;
  std::string token_file = "/var/run/secrets/kubernetes.io/serviceaccount/token";

  // The OCI layout of this CompileCache, "<mount>/<subPath>/<cache>".
  std::string store_path;
  bool index_fallback = true;
  // Whether the loader asks the operator before it starts. Not where pods of the namespace were
  // never heard of: it would wait in vain. The saver tries all the same.
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

  // Times in milliseconds.
  bool fallback_compatible = true;
  int64_t wait_for_first_ms = 0;
  int64_t load_timeout_ms = 120'000;
  int64_t ephemeral_limit_bytes =
      0;  // of the pod; 0: none. An archive over half of it is not loaded.

  SavePolicy save_policy = SavePolicy::kOnChange;
  int64_t quiet_period_ms = 30'000;
  // Until this pod has saved for the first time; 0: the same.
  int64_t first_quiet_period_ms = 0;
  int64_t at_termination_ms = 15'000;
  int64_t max_archive_bytes = 1LL << 30;
  int compression_level = 9;
  int compression_threads = 2;
  int64_t compression_window_bytes = 16LL << 20;

  // Sweep Jobs only.
  struct Sweep {
    std::string cluster_uid;  // of kube-system: whose store this is
    bool adopt = false;
    bool operator==(const Sweep&) const = default;
  } sweep;

  bool operator==(const AgentConfig&) const = default;
};

// AgentConfig::store_path of a CompileCache.
std::string store_path(const CompileCache& cache);

// Fails with kInvalid, naming the field.
Result<AgentConfig> parse_agent_config(const std::string& text);
std::string dump(const AgentConfig& config);

// What the webhook writes into the status annotation; from it the operator knows how to serve the
// pod.
struct InjectionStatus {
  std::string version;  // of the operator that injected
  std::string hash;     // of what was injected; equal: nothing to do
  std::vector<std::string> init_containers, volumes, containers;
  // What was added to the chosen containers, so that it can be taken out again:
  // "container:VARIABLE", and the paths at which our volumes are mounted.
  std::vector<std::string> variables, mounts;
  std::vector<std::string> frameworks;
  Mode mode = Mode::kReadWrite;
  int64_t wait_for_first_ms = 0;
  KeyBasis key_basis;
  bool operator==(const InjectionStatus&) const = default;
};
Result<InjectionStatus> parse_injection_status(const std::string& text);
std::string dump(const InjectionStatus& status);

}  // namespace compilecache::api
