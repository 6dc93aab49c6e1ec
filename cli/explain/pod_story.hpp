#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/compile_cache_archive.hpp"
#include "cli/explain/start_phases.hpp"

// How one pod started, step by step, for somebody who asks why it is still slow: `kubectl
// compilecache explain`.
//
//   PodStory story = tell_story(facts);
//   std::cout << text_of(story);            // a screen
//   std::cout << json_of(story).dump(2);    // the same for scripts
//
// All facts come from the API server: the pod, status.recent of its CompileCache, archives, Events,
// its application's log.
// Pure: no clock, no I/O; safe from any thread. Any part of the objects may be missing.

namespace compilecache::cli {

// The objects that could be read. `unread` names the others; the story does without them.
struct PodFacts {
  nlohmann::json pod;
  std::optional<api::CompileCache> cache;  // of the pod's annotation; nothing: there is none
  bool cache_unread = false, events_unread = false;  // there may be, but they could not be read
  std::vector<api::CompileCacheArchive> archives;    // of that CompileCache
  std::optional<nlohmann::json> node;                // of the pod
  std::vector<nlohmann::json> events;                // of the pod, its owner and its CompileCache
  std::optional<std::string> log;                    // of the application (start_phases.hpp)
  std::vector<std::string> unread;                   // "the node node-1: forbidden"
};

struct KeyPart {
  std::string name, value;  // "GPUProduct", "NVIDIA-H100-80GB-HBM3"
  std::string from;         // "the label nvidia.com/gpu.product of node n1"
};

struct ToldEvent {
  std::string time, about, reason, message;
};

struct PodStory {
  std::string ns, pod, node, phase, cache;
  std::string created;  // RFC 3339

  bool injected = false;
  std::string injection, injection_why;  // the reason's word, and a sentence
  std::string mode, version;             // of the operator that injected
  std::vector<std::string> frameworks, containers;

  std::vector<KeyPart> key;
  std::string key_archive;  // the archive's name for this key, whether it exists or not

  std::string load;  // exact, compatible, none, failed; empty: not reported
  std::string load_reason, load_why, archive;
  int64_t generation = 0, bytes = 0;
  // Where none is loaded: the CompileCache's archive whose key differs least from this pod's.
  std::string nearest;
  std::vector<std::string> nearest_differs;  // "Image: app:1 there, app:2 here"

  StartTimes start;

  std::string effect, effect_why;  // empty: nothing was loaded, or not judged yet
  int64_t loaded_entries = 0, read_entries = 0, new_entries = 0;
  std::vector<std::string> compiled, differing;
  double compile_seconds = 0, seconds_saved = 0;

  std::string save, save_reason, save_why;

  std::vector<std::string> start_kit;  // what spec.startKit would add
  std::vector<std::string> change;     // what to do, the most important first
  std::vector<ToldEvent> events;       // the operator's, of this pod, newest last
  std::vector<std::string> unread;
};

PodStory tell_story(const PodFacts& facts);

std::string text_of(const PodStory& story);
nlohmann::json json_of(const PodStory& story);

}  // namespace compilecache::cli
