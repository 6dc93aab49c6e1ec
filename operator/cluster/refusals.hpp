#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kube/fields.hpp"

// Pods that a policy of the cluster did not admit, as the controllers that wanted to make them say
// in Events (FailedCreate): such a pod never exists, so nothing else tells of it.
//
//   Refusal refusal = *parse_refusal(event);
//   if (place_in(refusal.message) == RefusedPlace::kOurs) ...
//
// Pure; safe from any thread.

namespace compilecache::controller {

struct Refusal {
  std::string ns, kind, name, uid;  // whose pod it was to be
  std::string message;
  std::string event, version;  // the Event's name and resourceVersion
};

// An Event; fields are named beside it. Never fails.
Result<Refusal> parse_refusal(const nlohmann::json& event);
const kube::Fields& refusal_fields();
// The latest time that an Event gives.
std::optional<WallTime> time_of_event(const nlohmann::json& event);

// What the message finds fault with.
enum class RefusedPlace {
  kElsewhere,  // nothing of ours
  kMayBeOurs,  // one of the first two init containers: ours, if the pod was injected
  kOurs,       // it names one of our containers
};
RefusedPlace place_in(std::string_view message);

// Whether it is about the user that a container runs as.
bool is_about_a_user(std::string_view message);

}  // namespace compilecache::controller
