#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "api/archive_key.hpp"
#include "api/choices.hpp"
#include "api/compile_cache_archive.hpp"
#include "operator/agents/group_answers.hpp"

// Decides which archive a pod loads before it starts: one, or none, or "ask again".
//
//   LoadSituation situation{.cache = "transformer", .key = make_key(basis, node), .archives = ...};
//   api::LoadAnswer answer = decide_load(situation);
//
// Exact archives go before compatible ones. Of exact ones, those for the host's CPU go first. Of
// compatible ones, those that the pod's own service account saved go first, then those of its own
// workload, and then newer before older. Never handed out: a distrusted head, code of another kind
// of CPU, and saves of a service account that may not save (any more).
// The loader says how long it has waited already. Waiting for the first pod is bounded by
// wait_for_first, waiting for a place by the load's budget; the load then has the rest of it.
// Pure; safe from any thread.

namespace compilecache::controller {

struct LoadSituation {
  std::string cache;
  Result<api::ArchiveKey> key;  // or why there is none (yet): kUnavailable
  std::vector<std::shared_ptr<const api::CompileCacheArchive>> archives;  // of this CompileCache

  // The kind of CPU of the pod's host, and whether the pod uses GPUs. Then an archive of an
  // unknown kind of CPU may turn out to be for every one (api::cpu_fit).
  std::string host_cpu;
  bool uses_gpu = true;

  // Requests of the CompileCache and the pod.
  api::Mode mode = api::Mode::kReadWrite;
  bool fallback_compatible = true;
  std::chrono::milliseconds timeout{120'000};
  std::chrono::milliseconds wait_for_first{0};
  std::vector<std::string> allowed_service_accounts;  // spec.save's; empty: all
  std::string service_account, workload;              // the pod's
  // Limits of the settings.
  std::chrono::milliseconds label_wait{10'000};

  std::chrono::milliseconds waited{0};            // so far, by this loader
  std::chrono::milliseconds waited_for_place{0};  // of it, because of too_many_loads
  // Another live pod of the same key started cold and has not saved yet, or not all.
  bool first_is_compiling = false;
  // What another member of the pod's group was given at this start.
  std::optional<GroupAnswer> given_to_group = {};
  bool too_many_loads = false;  // as many as the store may serve at once
  // Within which time it gets a place, since it waits for other namespaces' loads alone.
  std::optional<std::chrono::milliseconds> place_due;
  size_t waiting = 0;   // how many pods (of its namespace) wait at the moment
  double spread = 0.5;  // of this pod, 0 to 1, so that pods do not all ask at one moment
};

api::LoadAnswer decide_load(const LoadSituation& situation);

// How long others are still held after the first pod's save: until its cache directory has been
// still for half of the time that it compiled, at most 30 s. A short quiet period alone may lie
// between two of its graphs. Nothing when the save is complete.
std::chrono::milliseconds settle_time(const api::CommitRequest& saved);

}  // namespace compilecache::controller
