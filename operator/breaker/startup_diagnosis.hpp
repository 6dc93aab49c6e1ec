#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "operator/cluster/cluster_view.hpp"

// Judges from outside whether our containers and our volume let an injected pod start. Such faults
// happen before any of our code runs, so no agent reports them.
//
//   const VolumeSight volume{.claim = "caches", .volume = "pv-1", .bound = true};
//   const PodSign sign = read_sign(pod, volume, rules);
//   if (sign.kind == PodSign::Kind::kTrouble) ...      // sign.trouble, sign.text
//
// A fault counts only where the pod would not have it without us: its own image, volumes,
// resources and crashes do not count. Pure; safe from any thread.

namespace compilecache::controller {

enum class Trouble {
  kImage,          // our image cannot be pulled
  kStart,          // an injected container cannot be made or started
  kExit,           // ... ended with an error, or does so again and again
  kMemory,         // ... was killed for its memory
  kMount,          // the kubelet cannot mount an injected volume
  kUnschedulable,  // the claim leaves no node
  kRefused,        // a policy does not admit an injected container
  kSlowLoader,     // the loader runs for longer than it ever may
};
// "ImageNotPulled": the reason of the condition InjectionPaused.
std::string_view to_string(Trouble trouble);

struct PodSign {
  enum class Kind {
    kNone,     // nothing can be said: too early, or the pod's own affair
    kPast,     // our containers did what they should
    kWaits,    // no injected container has started; Events may say why
    kLoads,    // the loader runs
    kTrouble,  // it does not start, or is not ready, on our account
  };
  Kind kind = Kind::kNone;
  Trouble trouble = Trouble::kStart;
  std::string text;  // of kTrouble, for people: which container, what the kubelet says
  // How long it has to last before it counts; 0: it has been tried often enough already.
  Duration patience{0};
};

// The facts about the CompileCache's claim.
struct VolumeSight {
  std::optional<std::string> claim;  // nothing: the CompileCache has none
  std::string volume;                // the PersistentVolume's name; empty: not bound
  bool bound = false;
  bool has_node_affinity = false;
};

struct SignRules {
  Duration patience{0};
  // The longest that a loader may run, without the pod's own wait for the first.
  Duration load_budget{0};
};

PodSign read_sign(const PodView& pod, const VolumeSight& volume, const SignRules& rules);

// Nothing of the user's has started in it: it can be replaced without loss.
bool has_started_nothing(const PodView& pod);

// Whether the scheduler's message says that our claim leaves the pod no node, and nothing else
// would.
bool claim_leaves_no_node(std::string_view message, const VolumeSight& volume);

// Whether the message of a FailedMount or FailedAttachVolume Event is about an injected volume, and
// no other keeps the pod waiting.
bool is_about_our_volume(std::string_view message, const PodView& pod, const VolumeSight& volume);

}  // namespace compilecache::controller
