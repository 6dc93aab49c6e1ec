#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "api/archive_key.hpp"
#include "api/choices.hpp"
#include "api/compile_cache_archive.hpp"

// Which archive a pod gets before it starts, or none, or "ask again".
//
//   LoadSituation situation{.cache = "transformer", .key = make_key(basis, node), .archives = ...};
//   api::LoadAnswer answer = decide_load(situation);
//
// Exact before compatible, newest before older, never one that is distrusted. Waiting is bounded by
// what the loader says it has waited already: for the first pod by wait_for_first, for a place by
// the load's budget, of which the load then has the rest. Pure; safe from any thread.

namespace compilecache::controller {

struct LoadSituation {
  std::string cache;
  Result<api::ArchiveKey> key;  // or why there is none (yet): kUnavailable
  std::vector<std::shared_ptr<const api::CompileCacheArchive>> archives;  // of this CompileCache

  // What the CompileCache and the pod ask for.
  api::Mode mode = api::Mode::kReadWrite;
  bool fallback_compatible = true;
  std::chrono::milliseconds timeout{120'000};
  std::chrono::milliseconds wait_for_first{0};
  // What the settings allow.
  std::chrono::milliseconds label_wait{10'000};

  std::chrono::milliseconds waited{0};            // so far, by this loader
  std::chrono::milliseconds waited_for_place{0};  // of it, because of too_many_loads
  // Another live pod of the same key started cold and has not saved yet, or not all.
  bool first_is_compiling = false;
  bool too_many_loads = false;  // as many as the claim may serve at once
  size_t waiting = 0;           // how many pods are told so at the moment
  double spread = 0.5;          // of this pod, 0 to 1, so that pods do not all ask at one moment
};

api::LoadAnswer decide_load(const LoadSituation& situation);

// How long others are still held after the first pod's save: until its cache directory has been
// still for half of the time that it compiled, at most 30 s, since a short quiet period alone may
// lie between two of its graphs. Nothing when the save is complete.
std::chrono::milliseconds settle_time(const api::CommitRequest& saved);

}  // namespace compilecache::controller
