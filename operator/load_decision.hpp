#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "api/agent_api.hpp"
#include "api/archive_key.hpp"
#include "api/compile_cache_archive.hpp"

// Which archive a pod gets before it starts, or none, or "ask again".
//
//   LoadSituation situation{.cache = "transformer", .key = make_key(basis, node), .archives = ...};
//   api::LoadAnswer answer = decide_load(situation);
//
// Exact before compatible, newest before older, never one that is distrusted. Waiting is bounded by
// what the loader says it has waited already. Pure; safe from any thread.

namespace compilecache::controller {

struct LoadSituation {
  std::string cache;
  Result<api::ArchiveKey> key;  // or why there is none (yet): kUnavailable
  std::vector<std::shared_ptr<const api::CompileCacheArchive>> archives;  // of this CompileCache

  // What the CompileCache and the pod ask for.
  std::string mode = "ReadWrite";
  bool fallback_compatible = true;
  std::chrono::milliseconds timeout{120'000};
  std::chrono::milliseconds wait_for_first{0};
  // What the settings allow.
  std::chrono::milliseconds label_wait{10'000};

  std::chrono::milliseconds waited{0};  // so far, by this loader
  bool first_is_compiling =
      false;                    // another live pod of the same key started cold and has not saved
  bool too_many_loads = false;  // as many as the claim may serve at once
};

api::LoadAnswer decide_load(const LoadSituation& situation);

// How long a load may take: the timeout, and never longer than half of the compile time that the
// archive is known to save, but at least 5 s.
std::chrono::milliseconds load_budget(std::chrono::milliseconds timeout, double compile_seconds);

}  // namespace compilecache::controller
