#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/compile_cache.hpp"
#include "api/reasons.hpp"
#include "webhook/namespace_facts.hpp"
#include "webhook/patch.hpp"
#include "webhook/pod_json.hpp"
#include "webhook/settings.hpp"

// The injection: a pure function of a pod, its CompileCache, its namespace and the settings that
// returns a patch and a report.
//
//   auto result = inject({.pod = pod, .ns = "ml", .cache = &cache, .facts = facts,
//                         .settings = settings});
//   if (!result.patch.empty()) ...      // patch_text(result.patch) is the JSON Patch
//   const std::string& why = result.report.message;             // and .reason, .warnings
//
// It checks in this order, and the first reason against injecting counts (api/reasons.hpp):
//
//   namespace excluded, not_annotated, mirror pod, Windows pod
//   its size           pod_too_large: before any of its lists is walked
//   annotations        annotation_invalid
//   mode               disabled; forced_cold (variables and nothing else)
//   the CompileCache   cache_not_found, cache_deleting, injection_paused, cache_not_ready
//   the nodes          kubelet_too_old
//   frameworks, containers, devices
//                      unknown_framework, container_not_found, resource_claims, unknown_device,
//                      own_caches
//   what is taken      name_conflict, mount_conflict, cache_dir_not_literal, cache_dir_unsafe
//   the namespace      no_room_in_quota, no_room_in_limit_range
//   what it came to    pod_too_large
//
// Nothing that the user wrote is changed or reordered; the QoS class and the Pod Security level
// stay. Injecting an injected pod changes nothing. An injection by another version or with other
// settings is removed and done again; where the pod is not to be injected any more, it is only
// removed. Nothing takes more than linear time in what the pod's author wrote
// (webhook/pod_bounds.hpp). No I/O, no clock; safe from any thread; throws nothing for any JSON
// that is not absurdly deep.

namespace compilecache::webhook {

enum class InjectionOutcome {
  kInjected,   // also where it was done again, and for the variables of ForceCold
  kUnchanged,  // the same injection is there already
  kSkipped,
};
std::string_view to_string(InjectionOutcome outcome);  // "injected", "unchanged", "skipped"

struct InjectionReport {
  InjectionOutcome outcome = InjectionOutcome::kSkipped;
  api::InjectionReason reason = api::InjectionReason::kNotAnnotated;
  std::string message;                // for people; names the fault and the allowed values
  std::vector<std::string> warnings;  // for the pod's creator, in kubectl's output
};

struct InjectionInput {
  const Json& pod;
  // The request's namespace: a pod's own metadata may leave it out.
  std::string_view ns;
  // nullptr where the namespace has no CompileCache of the name that wanted_cache() returns.
  const api::CompileCache* cache = nullptr;
  const NamespaceFacts& facts;
  const InjectionSettings& settings;
};

struct InjectionResult {
  Patch patch;
  InjectionReport report;
};

InjectionResult inject(const InjectionInput& input);

// The CompileCache that the pod's annotation names; nothing without one.
std::optional<std::string> wanted_cache(const Json& pod);

}  // namespace compilecache::webhook
