#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/agent_resources.hpp"
#include "api/choices.hpp"
#include "api/conditions.hpp"
#include "api/recent_pods.hpp"
#include "base/error.hpp"

// The CompileCache resource as structs. The schema with its defaults is crds/compilecaches.yaml;
// the defaults here are the same, for objects that never went through an API server (`inject -f`).
// A test holds the two together.

namespace compilecache::api {

using std::chrono::milliseconds;

// The part of an object's metadata that we use.
struct ObjectMeta {
  std::string name;
  std::string ns;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  bool deleting = false;
  std::string creation_time;

  // "namespace/name", the key in stores and queues.
  [[nodiscard]] std::string key() const { return ns + "/" + name; }
};
ObjectMeta object_meta(const nlohmann::json& object);

// spec.storage.registry: a registry of the user's.
struct RegistrySpec {
  std::string repository;  // "harbor.example.com/ml/caches", see repository_name.hpp
  // In the same namespace; empty: none.
  std::string secret_name, ca_config_map_name;
  bool operator==(const RegistrySpec&) const = default;
};

// spec.storage.copyFrom: where another CompileCache of the namespace, or the one of this name in
// another cluster, has its archives: a claim, a registry or, with neither, the installation's own
// registry.
struct CopySource {
  std::string cache;  // its name; empty: the same
  std::string claim_name, sub_path;
  std::optional<RegistrySpec> registry;
  bool operator==(const CopySource&) const = default;
};

// spec.storage. With neither a claim nor a registry it is the installation's own registry. (Not
// within CompileCacheSpec: clang cannot make an optional of a class before the one around it is
// complete.)
struct StorageSpec {
  std::string claim_name;
  std::optional<RegistrySpec> registry;
  // Of a claim alone.
  std::string sub_path;
  bool allow_read_write_once = false;
  bool allow_node_affinity = false;
  bool allow_user_namespaces = false;
  bool adopt = false;
  std::optional<CopySource> copy_from;
  bool operator==(const StorageSpec&) const = default;
};

struct CompileCacheSpec {
  using Storage = StorageSpec;
  std::optional<Storage> storage;  // nothing: no archives, only `remote_cache`
  std::vector<std::string> frameworks{"torch", "triton"};
  std::string version;
  std::vector<std::string> key{"GPUProduct", "GPUCount", "Architecture", "Image"};
  struct Load {
    LoadFallback fallback = LoadFallback::kCompatible;
    milliseconds wait_for_first{0};
    milliseconds timeout{120'000};
    bool operator==(const Load&) const = default;
  } load;
  struct Save {
    SavePolicy policy = SavePolicy::kOnChange;
    milliseconds quiet_period{30'000};
    milliseconds at_termination{15'000};
    uint64_t max_archive_size = 1ULL << 30;
    milliseconds lock_timeout{30'000};
    std::vector<std::string> allowed_service_accounts;
    // The saver's user; nothing: the pod's, or one from status.fileOwners.
    std::optional<int64_t> run_as_user;
    bool operator==(const Save&) const = default;
  } save;
  struct Retention {
    milliseconds unused_for{std::chrono::hours(720)};
    uint64_t max_total_size = 50ULL << 30;
    int keep_per_gpu = 5;
    milliseconds incomplete_timeout{60'000};
    milliseconds sweep_interval{std::chrono::hours(6)};
    bool operator==(const Retention&) const = default;
  } retention;
  struct Redis {
    std::string host;  // empty: no remote cache
    int port = 6379;
    bool operator==(const Redis&) const = default;
  };
  struct RemoteCache {
    Redis redis;
    bool operator==(const RemoteCache&) const = default;
  } remote_cache;
  struct Compression {
    int level = 9;
    int threads = 2;
    uint64_t window = 16ULL << 20;  // bytes
    bool operator==(const Compression&) const = default;
  } compression;
  // The keys that must have signed external archives; no keys: none.
  struct Trust {
    std::vector<std::string> public_keys;  // PEM
    bool operator==(const Trust&) const = default;
  } trust;
  AgentResources resources;  // of our containers
  bool start_kit = false;    // what frameworks leave off (frameworks/framework.hpp)
  // Whether an init container loads and a sidecar saves, or one sidecar does both.
  Delivery delivery = Delivery::kInitAndSidecar;

  bool operator==(const CompileCacheSpec&) const = default;
};

struct LoadCounters {
  int64_t exact = 0, compatible = 0, missing = 0, failed = 0;
  bool operator==(const LoadCounters&) const = default;
};
struct EffectCounters {
  int64_t full = 0, partial = 0, none = 0, unused = 0, unknown = 0;
  bool operator==(const EffectCounters&) const = default;
};
struct SaveCounters {
  int64_t committed = 0, unchanged = 0, refused = 0, failed = 0;
  bool operator==(const SaveCounters&) const = default;
};

struct LastSweep {
  std::string time;
  int64_t freed_bytes = 0, removed_archives = 0, removed_incomplete = 0;
  bool operator==(const LastSweep&) const = default;
};

// The last attempt to copy archives from spec.storage.copyFrom; nothing is copied twice.
struct LastCopy {
  std::string from;  // copy_source_in_words()
  std::string time;  // of its end, RFC 3339
  int64_t archives = 0;
  int64_t left_out = 0;  // lost there, or not to be trusted
  std::string error;     // why not all the others; empty: they are here

  [[nodiscard]] bool done(const std::string& source) const {
    return from == source && error.empty();
  }
  bool operator==(const LastCopy&) const = default;
};

// A digest that no head reaches. A sweep Job may delete its blob once the grace is over
// (docs/design/archive-format.md).
struct CondemnedBlob {
  std::string digest;
  std::string since;
  bool operator==(const CondemnedBlob&) const = default;
};

// The largest user id that Kubernetes accepts as runAsUser.
inline constexpr int64_t kLargestUser = 2'147'483'647;
inline bool is_user(int64_t user) { return user >= 0 && user <= kLargestUser; }

// The user who owns files of an image's pods that nobody else can read (vLLM writes with mode
// 0600), as a saver has reported. Savers of later pods that name no user run as that user.
struct FileOwner {
  std::string image;     // as the pod names it
  int64_t user = 0;      // is_user()
  bool refused = false;  // pods whose saver had that user were not admitted: no longer used
  std::string time;      // when it was learned, RFC 3339
  bool operator==(const FileOwner&) const = default;
};
inline constexpr size_t kMostFileOwners = 32;

// The breaker's state (operator/breaker/breaker.hpp): whether pods are injected. The condition
// InjectionPaused says why not.
struct Breaker {
  std::string state;  // Open, Closed; empty: it was never open
  std::string since;
  int64_t openings = 0;       // in a row
  int64_t failed_probes = 0;  // since it opened
  std::string probe_time;     // when open: the earliest time for the next probe
  std::string node;           // where the next probe is to run; empty: anywhere
  std::string newest_pod;     // creation time of the newest pod when the breaker closed last
  bool operator==(const Breaker&) const = default;
};

struct CompileCacheStatus {
  int64_t observed_generation = 0;
  std::vector<Condition> conditions;  // Ready, StorageReady, Reconciling, Stalled, ...
  std::string store;                  // store_in_words()
  // The store that spec.storage.adopt has been done for, by name: it is taken over once.
  std::string adopted_store;
  int64_t archives = 0, gpu_products = 0, total_bytes = 0, active_pods = 0;
  LoadCounters loads;
  EffectCounters effect;
  SaveCounters saves;
  RecentPods recent;
  std::string last_save_time;
  LastSweep last_sweep;
  LastCopy last_copy;
  int64_t seconds_saved = 0;
  std::vector<CondemnedBlob> condemned;
  std::vector<std::string> crashing;   // manifests that made pods crash; no save may contain one
  std::vector<FileOwner> file_owners;  // one for each image, latest last; at most kMostFileOwners
  std::vector<std::string> stuck_pods;
  // The uid of the newest sweep Job that the operator has created: it alone, and its pod, are
  // believed.
  std::string sweep_job;
  Breaker breaker;
};

struct CompileCache {
  ObjectMeta metadata;
  CompileCacheSpec spec;
  CompileCacheStatus status;
};

// Errors name the field: "spec.load.timeout: reading the duration …". A status that cannot be read
// is taken for an empty one.
Result<CompileCache> parse_compile_cache(const nlohmann::json& object);
nlohmann::json to_json(const CompileCacheStatus& status);

}  // namespace compilecache::api
