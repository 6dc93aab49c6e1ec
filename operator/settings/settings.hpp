#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "api/archive_key.hpp"
#include "base/error.hpp"
#include "frameworks/framework.hpp"
#include "frameworks/trap.hpp"

// The settings of the whole installation: one YAML file, read once at start.
//
//   auto settings = load_settings("/etc/compilecache/settings.yaml");
//   if (!settings) { std::cerr << settings.error().message; return 2; }
//
// config/settings.yaml is the shipped file, with an explanation of each. Keys there are the
// camelCase form of the members here ("maxConcurrentSaves"). Durations are written like 30s or
// 1h30m. Every key may be left out, unknown and duplicate keys are refused. Errors are kInvalid and
// list all that is wrong, a line each: "settings.yaml:12: limits.maxConcurrentSaves: 0 is out of
// range, allowed 1 to 10000".

namespace compilecache::controller {

// Requests and limits of a container; quantities are kept as they were written ("100m", "64Mi").
struct ContainerResources {
  std::map<std::string, std::string> requests, limits;
  bool operator==(const ContainerResources&) const = default;
};

struct Settings {
  // The image of loader, saver and sweep Jobs. Empty: the one the operator itself runs from.
  std::string agent_image;

  api::NodeLabels node_labels;

  // GPUs that come by dynamic resource allocation, by the names of their drivers.
  std::map<std::string, api::DeviceDriver> device_drivers;

  // Extended resources that are GPUs; `*` stands for anything ("nvidia.com/mig-*").
  std::vector<std::string> gpu_resources{"nvidia.com/gpu", "nvidia.com/mig-*"};
  // Extended resources that do not influence compiled code ("rdma/*"). A pod without a GPU that
  // requests a resource in neither list is not injected, since it is not known what it computes on.
  std::vector<std::string> harmless_resources;

  struct Limits {
    int max_concurrent_saves = 50;  // of one store
    int max_concurrent_loads = 50;  // of one store
    int recent_pods = 32;           // in a CompileCache's status.recent
    int api_threads = 8;            // of the agent API, each waits for the API server now and then
    int webhook_threads = 4;        // that answer reviews
    bool operator==(const Limits&) const = default;
  } limits;

  struct Agent {
    // Whether a loader that gets no answer from the operator believes the volume's index.json.
    bool index_fallback = true;
    // Where agents reach the operator. Empty: the ClusterIP of the Service. For an operator that
    // runs outside the cluster.
    std::string address;
    int port = 443;
    // How long a loader may wait for its node's GPU product label to appear.
    std::chrono::milliseconds label_wait{10'000};
    // A pod that has not called the operator for so long after its loader's end counts as unheard.
    std::chrono::milliseconds unheard_after{90'000};
    // After so many unheard pods of a namespace in a row its new pods no longer wait for an answer.
    int unheard_pods = 3;
    bool operator==(const Agent&) const = default;
  } agent;

  struct Save {
    // How long the cache directory of a pod that ends by itself has to be still before its first
    // save, where spec.save.quietPeriod is longer.
    std::chrono::milliseconds first_quiet_period{3'000};
    bool operator==(const Save&) const = default;
  } save;

  struct Resources {
    ContainerResources loader, saver, sweep;
    bool operator==(const Resources&) const = default;
  } resources;

  struct Sweep {
    // How long a blob is condemned before it may be deleted; outlasts any extraction.
    std::chrono::milliseconds grace{15 * 60'000};
    std::chrono::milliseconds ttl_after_finished{10 * 60'000};  // of the Job
    std::chrono::milliseconds deadline{30 * 60'000};            // of the Job
    // Two sweeps of one CompileCache are at least this far apart, whatever asks for them.
    std::chrono::milliseconds min_interval{5'000};
    bool operator==(const Sweep&) const = default;
  } sweep;

  // When pods of a CompileCache are not injected, because earlier ones could not start with it.
  struct Breaker {
    // How long a fault has to last before it counts.
    std::chrono::milliseconds patience{30'000};
    // How long it has to last on one node alone, where there are more nodes and no other pod
    // started.
    std::chrono::milliseconds one_node{5 * 60'000};
    // Pods that were made longer than this before those in trouble do not count.
    std::chrono::milliseconds window{10 * 60'000};
    // The least percentage of pods in trouble among those made at about the same time.
    int share_percent = 20;
    // The time from opening to the first probe; it doubles up to the longest.
    std::chrono::milliseconds pause{60'000};
    std::chrono::milliseconds longest_pause{60 * 60'000};
    // The time between two replacements of stuck pods (--replace-stuck-pods).
    std::chrono::milliseconds replace_interval{6'000};
    bool operator==(const Breaker&) const = default;
  } breaker;

  // Lifetimes of our own authority and of the leaf that it signs for the webhook and the agent API;
  // both are rotated long before they end. The second is at most an eighth of the first.
  struct CertificateLives {
    std::chrono::milliseconds authority_life{std::chrono::hours(24 * 3650)};
    std::chrono::milliseconds leaf_life{std::chrono::hours(24 * 90)};
    bool operator==(const CertificateLives&) const = default;
  } certificates;

  // The installation's own registry (config/components/registry).
  struct Registry {
    bool enabled = false;  // there is one; --registry says so too
    // How many bytes a namespace may keep there; 0: no bound.
    uint64_t namespace_share = 25ULL << 30;
    // When its garbage is collected, for which its pod is recreated: so much of it, at most so
    // often, and after no save for so long.
    uint64_t collect_above = 5ULL << 30;
    std::chrono::milliseconds collect_interval{std::chrono::hours(24)};
    std::chrono::milliseconds quiet_for{2 * 60'000};
    // Where there is no such moment: so long after it is due.
    std::chrono::milliseconds collect_within{std::chrono::hours(1)};
    // How often it is looked at what is in there, and how long what no CompileCache needs stays.
    std::chrono::milliseconds check_interval{std::chrono::minutes(10)};
    std::chrono::milliseconds keep_deleted{std::chrono::hours(24)};
    bool operator==(const Registry&) const = default;
  } registry;

  // A CompileCache's status is written at most this often.
  std::chrono::milliseconds status_interval{5'000};
  // How long the answer of a TokenReview is cached.
  std::chrono::milliseconds token_cache{60'000};

  std::map<std::string, frameworks::Framework> frameworks;
  std::vector<frameworks::Trap> traps;  // in the file's order

  bool operator==(const Settings&) const = default;
};

// `file_name` is for the messages.
Result<Settings> parse_settings(const std::string& text, const std::string& file_name);
// kNotFound or kIo when the file cannot be read.
Result<Settings> load_settings(const std::string& path);

}  // namespace compilecache::controller
